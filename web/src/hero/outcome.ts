// Sentences about signal, gradient and tokens, made from the measurement. The bounds
// are those of stacks/verdict.ts.

import type { Measurement } from '../kernels/kernels';
import { t } from '../language/text';
import { ALIKE, fateOf } from '../stacks/verdict';
import { grouped, powerNumber, roundNumber } from '../ui/numbers';

export interface Outcome {
  verdict: string;
  reason: string;
}

export function outcome({ stream, gradient, tokenCosine }: Measurement): Outcome {
  const signal = ratio(stream.at(-1)!, stream[0]);
  const back = ratio(gradient[0], gradient.at(-1)!);
  const cosine = tokenCosine.at(-1)!;
  const reason = t`${signalWords(signal)}, ${gradientWords(back)}, and ${tokenWords(cosine)}.`;
  return { verdict: verdictOn([signal, back].map(fateOf), cosine), reason };
}

function ratio(a: number, b: number): number {
  return a === 0 ? 0 : a / b;
}

function verdictOn(fates: ReturnType<typeof fateOf>[], cosine: number): string {
  if (fates.some((fate) => fate === 'explodes' || fate === 'overflows')) return t`It explodes.`;
  if (fates.includes('vanishes')) return t`It fades.`;
  return cosine >= ALIKE ? t`It collapses.` : t`It gets through.`;
}

function signalWords(ratio: number): string {
  switch (fateOf(ratio)) {
    case 'overflows':
      return t`The signal outgrows float32`;
    case 'vanishes':
      return ratio === 0
        ? t`Nothing of the signal is left`
        : t`One ${large(1 / ratio)}th of the signal is left`;
    case 'explodes':
      return Number.isFinite(ratio)
        ? t`The signal grows ${large(ratio)}-fold`
        : t`The signal grows beyond float32`;
    case 'shrinks':
      return t`The signal shrinks to ${round(ratio)} of its size`;
    default:
      return round(ratio) === '1'
        ? t`The signal keeps its size`
        : t`The signal arrives with ${round(ratio)} times its initial size`;
  }
}

function gradientWords(ratio: number): string {
  switch (fateOf(ratio)) {
    case 'overflows':
      return t`there is no gradient`;
    case 'vanishes':
      return ratio === 0
        ? t`nothing of the gradient is left`
        : t`one ${large(1 / ratio)}th of the gradient is left`;
    case 'explodes':
      return Number.isFinite(ratio)
        ? t`the gradient grows ${large(ratio)}-fold`
        : t`the gradient grows beyond float32`;
    default:
      return t`the gradient arrives with ${round(ratio)} times its initial size`;
  }
}

function tokenWords(cosine: number): string {
  if (cosine >= ALIKE) return t`all tokens end as nearly the same vector`;
  return Number.isNaN(cosine) ? t`no token has a direction` : t`the tokens can still be told apart`;
}

const round = (value: number) => roundNumber(value, 2);

/** The value with separators: 1,900,000. */
function large(value: number): string {
  return value < 1e9 ? grouped(Number(value.toPrecision(2))) : powerNumber(value, 1);
}
