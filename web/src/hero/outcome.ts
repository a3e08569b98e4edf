// What becomes of signal, gradient and tokens, in words made of the measurement. The bounds are those
// of stacks/verdict.ts.

import type { Measurement } from '../kernels/kernels';
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
  const reason = `${signalWords(signal)}, ${gradientWords(back)}, and ${tokenWords(cosine)}.`;
  return { verdict: verdictOn([signal, back].map(fateOf), cosine), reason };
}

function ratio(a: number, b: number): number {
  return a === 0 ? 0 : a / b;
}

function verdictOn(fates: ReturnType<typeof fateOf>[], cosine: number): string {
  if (fates.some((fate) => fate === 'explodes' || fate === 'overflows')) return 'It explodes.';
  if (fates.includes('vanishes')) return 'It fades.';
  return cosine >= ALIKE ? 'It collapses.' : 'It carries.';
}

function signalWords(ratio: number): string {
  switch (fateOf(ratio)) {
    case 'overflows':
      return 'The signal outgrows float32';
    case 'vanishes':
      return `${part(ratio)} of the signal is left`;
    case 'explodes':
      return `The signal grows ${times(ratio)}`;
    default:
      return `The signal arrives at ${round(ratio)} times its size`;
  }
}

function gradientWords(ratio: number): string {
  switch (fateOf(ratio)) {
    case 'overflows':
      return 'there is no gradient';
    case 'vanishes':
      return `${part(ratio).toLowerCase()} of the gradient`;
    case 'explodes':
      return `the gradient ${times(ratio)}`;
    default:
      return `the gradient comes back at ${round(ratio)} times its own`;
  }
}

function tokenWords(cosine: number): string {
  if (cosine >= ALIKE) return 'all tokens end as nearly the same vector';
  return Number.isNaN(cosine) ? 'no token has a direction' : 'the tokens can still be told apart';
}

const round = (value: number) => roundNumber(value, 2);

/** 140,000-fold. */
function times(ratio: number): string {
  return Number.isFinite(ratio) ? `${large(ratio)}-fold` : 'beyond float32';
}

/** One 1,900,000th. */
function part(ratio: number): string {
  return ratio === 0 ? 'Nothing' : `One ${large(1 / ratio)}th`;
}

function large(value: number): string {
  return value < 1e9 ? grouped(Number(value.toPrecision(2))) : powerNumber(value, 1);
}
