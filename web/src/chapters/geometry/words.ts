// The sentences of “The geometry of LayerNorm”, made from the numbers.

import { type Gradient, withoutRounding } from '../../kernels/gradient';
import { t } from '../../language/text';
import type { TokenNorm } from '../../ui/names';
import { roundNumber } from '../../ui/numbers';
import { dot, length } from '../../ui/vectors';
import type { Moves } from './moves';
import type { Step } from './state';

const round = (v: number) => roundNumber(v, 3);

/** A sentence about the last step shown. */
export function stepWords(kind: TokenNorm, moves: Moves, last: Step): string {
  return (kind === 'layer' ? layerWords : rmsWords)(moves)[last];
}

function layerWords({ x, mean, deviation, centred, normalized }: Moves): Record<Step, string> {
  return {
    x: t`x is a point at distance ${round(length(x))} from 0. On the dashed line, along 1 = (1, 1,
        1), all three features are equal.`,
    centred: t`The mean μ = ${round(mean)} is subtracted from each feature. That is a projection
        along 1: x − μ lies in the plane through 0 where features sum to 0. The position of x along
        1 is lost.`,
    normalized: t`x − μ has length ${round(length(centred))}. Divided by σ = ${round(deviation)} it
        has length ${round(length(normalized))}. Up to ε every x̂ has length √3, because the mean
        square of its three numbers is 1. So x̂ lies on a circle. The distance of x from the dashed
        line is lost.`,
    scaled: t`γ stretches each axis by its own factor. The circle becomes an ellipse, which lies in
        another plane.`,
    output: t`β moves the ellipse. y lies on it for every x: three numbers become one, a position on
        a closed curve.`,
  };
}

function rmsWords({ x, deviation, normalized }: Moves): Record<Step, string> {
  return {
    x: t`This is the same x.`,
    centred: t`RMSNorm subtracts no mean, so x stays where it is.`,
    normalized: t`x has length ${round(length(x))}. Divided by σ, here its root mean square
        ${round(deviation)}, it has length ${round(length(normalized))}. So x̂ lies on a sphere.
        Only the length of x is lost.`,
    scaled: t`The sphere becomes an ellipsoid.`,
    output: t`β moves the ellipsoid; most models with RMSNorm have no β. Three numbers become two, a
        position on a surface.`,
  };
}

/** A sentence about x near the line along 1, and about x̂ there. */
export function nearWords({ centred, normalized }: Moves): string {
  return t`Now x is ${round(length(centred))} from the dashed line, and LayerNorm’s x̂ has length
        ${round(length(normalized))}.`;
}

/** A sentence about the parts of g. */
export function gradientWords(kind: TokenNorm, gradient: Gradient): string {
  const { g, alongOnes, alongNormalized, remainder, deviation, dx } = gradient;
  const whole = dot(g, g);
  if (whole === 0) return t`g is zero, so dx is zero.`;
  const share = (part: readonly number[]) => {
    const kept = withoutRounding(part, g);
    return `${round((100 * dot(kept, kept)) / whole)} %`;
  };
  const left = share(remainder);
  const [sigma, size] = [round(deviation), round(length(dx))];
  return kind === 'layer'
    ? t`${share(alongOnes)} of |g|² lies along 1 and ${share(alongNormalized)} along x̂. Both parts
        are removed. The remainder, ${left}, is tangent to the circle. Divided by σ = ${sigma} it is
        dx, of length ${size}.`
    : t`${share(alongNormalized)} of |g|² lies along x̂ and is removed. The remainder, ${left}, is
        tangent to the sphere. Divided by σ = ${sigma} it is dx, of length ${size}.`;
}
