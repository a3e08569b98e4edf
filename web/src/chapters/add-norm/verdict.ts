// The comparison of x̂ in sentences.

import { t } from '../../language/text';
import { fixedNumber, roundNumber } from '../../ui/numbers';
import { type Comparison, EPSILON, INJECTED } from './compute';

/** Differences below this come from ε and rounding alone. */
const SAME = 1e-4;

export function isSame(difference: number): boolean {
  return difference < SAME;
}

const NO_DIRECTION = t`All values of one of these vectors are equal. The norm makes this vector
  zero, and a zero vector has no cosine.`;

export function verdict(c: Comparison, unstable: boolean, residual: boolean): string {
  const cosines = [c.withStable, c.withX, c.withBranch, c.stableWithX, c.stableWithBranch];
  if (cosines.some(Number.isNaN)) return `${NO_DIRECTION} ${unstable ? scale(c) : ''}`;
  if (!unstable) return residual ? bothPaths(c) : branchOnly(c);
  return `${isSame(c.difference) ? same(c, residual) : changed(c)} ${scale(c)}`;
}

function scale({ deviationRatio, gradientRatio }: Comparison): string {
  return t`σ is ${roundNumber(deviationRatio, 3)} times as large as before, and the gradient through
    the norm is ${roundNumber(gradientRatio, 3)} times as large.`;
}

function bothPaths(c: Comparison): string {
  return t`No instability is injected. The cosine of x̂ is ${cosineText(c.withX)} with LayerNorm(x)
    and ${cosineText(c.withBranch)} with LayerNorm(F). Inject instability to see which of the two x̂
    follows.`;
}

function branchOnly(c: Comparison): string {
  return t`The residual is off: x does not reach s. The cosine of x̂ with LayerNorm(F) is
    ${cosineText(c.withBranch)}, whatever x is.`;
}

function same(c: Comparison, residual: boolean): string {
  const found = t`F is ${INJECTED} times as large, but x̂ has not changed: no value differs from the
    stable x̂ by more than ${roundNumber(c.difference, 2)}.`;
  if (residual) return found;
  const why = t`With the residual off, the norm’s whole input was scaled, and
    LayerNorm(${INJECTED}·F) = LayerNorm(F) up to the effect of ε = ${roundNumber(EPSILON, 1)}.`;
  return `${found} ${why}`;
}

function changed(c: Comparison): string {
  const [stable, branch] = [cosineText(c.withStable), cosineText(c.withBranch)];
  const [branchBefore, xBefore] = [cosineText(c.stableWithBranch), cosineText(c.stableWithX)];
  const found = t`x̂ is in range, but it differs from the stable x̂: their cosine is ${stable}. Only
    F was scaled, not x. The cosine with LayerNorm(F) went from ${branchBefore} to ${branch}, and
    the cosine with LayerNorm(x) from ${xBefore} to ${cosineText(c.withX)}.`;
  const left = Math.abs(c.withX / c.stableWithX);
  if (!(left < 1)) return found;
  return `${found} ${left < 0.5 ? t`So x has little effect.` : t`So x has less effect.`}`;
}

/** The cosine with that many decimals, or a text for a zero vector, which has no direction. */
export function cosineText(v: number, decimals = 2): string {
  return Number.isNaN(v) ? t`undefined` : fixedNumber(v, decimals);
}
