// The effect of a stack on signal and gradient, in numbers and in words.

import type { Measurement } from '../kernels/kernels';
import { t } from '../language/text';
import { roundNumber } from '../ui/numbers';

type Fate = 'vanishes' | 'shrinks' | 'arrives' | 'grows' | 'explodes' | 'overflows';

/** The fate of a signal or gradient, by the ratio of its final to its initial size. The outer
 * bounds are those of `addnorm study`, which counts NaN as vanished; beyond them, a layer cannot
 * use it. The inner bounds are the next usual steps of a learning rate, down and up. */
export function fateOf(ratio: number): Fate {
  if (Number.isNaN(ratio)) return 'overflows';
  if (ratio < 1e-2) return 'vanishes';
  if (ratio < 0.1) return 'shrinks';
  if (ratio <= 10) return 'arrives';
  return ratio <= 1e2 ? 'grows' : 'explodes';
}

/** Explains the words of fateOf(). */
export const SCALE = t`Arrives: from a tenth to tenfold. Shrinks or grows: by more than that.
  Vanishes: to less than a hundredth. Explodes: more than a hundredfold. Overflows: beyond float32.`;

interface Ends {
  stream: number; // the last layer's output over layer 0's input
  gradient: number; // at layer 0, over the gradient at the last layer
}

export function endsOf({ stream, gradient }: Measurement): Ends {
  const ratio = (a: number, b: number) => (a === 0 ? 0 : a / b);
  return {
    stream: ratio(stream.at(-1)!, stream[0]),
    gradient: ratio(gradient[0], gradient[gradient.length - 2]),
  };
}

/** "The stream vanishes: 1e-5 of its size is left. The gradient of layer 0 is 3e-36 of …" */
export function verdict(measurement: Measurement): string {
  const ends = endsOf(measurement);
  const layers = measurement.stream.length - 1;
  const stream = streamWords(ends.stream, measurement);
  return `${alikeSentence(stream, measurement)} ${gradientSentence(ends.gradient, layers)}`;
}

function streamWords(ratio: number, { stream }: Measurement): string {
  if (!Number.isFinite(ratio)) {
    const last = stream.findLastIndex(Number.isFinite);
    return t`The stream explodes: the output of layer ${last} is too large for float32`;
  }
  switch (fateOf(ratio)) {
    case 'vanishes':
      return ratio === 0
        ? t`The stream vanishes: it becomes too small for float32`
        : t`The stream vanishes: ${round(ratio)} of its size is left`;
    case 'shrinks':
      return t`The stream shrinks: ${round(ratio)} of its size is left`;
    case 'grows':
      return t`The stream grows ${round(ratio)}-fold`;
    case 'explodes':
      return t`The stream explodes: it grows ${round(ratio)}-fold`;
    default:
      return round(ratio) === '1'
        ? t`The stream keeps its size`
        : t`The stream ends with ${round(ratio)} times its initial size`;
  }
}

/** The mean cosine from which tokens count as similar: their differences are then small. */
export const ALIKE = 0.99;

const ROUNDING = 1e-5; // the largest difference from 1 of a cosine of equal float32 vectors

/** A sentence about the stream, and about its tokens if these are nearly equal. A stream of equal
 * vectors carries no information, whatever its size. */
function alikeSentence(stream: string, { tokenCosine }: Measurement): string {
  const cosine = tokenCosine.at(-1)!;
  if (!(cosine >= ALIKE)) return t`${stream}.`;
  return 1 - cosine < ROUNDING
    ? t`${stream}, and all tokens then carry the same vector, to within rounding.`
    : t`${stream}, and all tokens then carry nearly the same vector (mean cosine ${roundNumber(cosine, 6)}).`;
}

function gradientSentence(ratio: number, layers: number): string {
  const part = round(ratio);
  const last = layers - 1;
  const each = round(ratio ** (1 / last)); // on average
  switch (fateOf(ratio)) {
    case 'overflows':
      return t`So there is no gradient: it is not a number.`;
    case 'vanishes':
      return ratio === 0
        ? t`The gradient of layer 0 is 0: on its way it became too small for float32.`
        : t`The gradient of layer 0 is ${part} of layer ${last}’s: it vanishes (each layer multiplies it by ${each} on average).`;
    case 'shrinks':
      return t`The gradient of layer 0 is ${part} times layer ${last}’s: it shrinks on the way.`;
    case 'arrives':
      return t`The gradient of layer 0 is ${part} times layer ${last}’s: it arrives.`;
    case 'grows':
      return t`The gradient of layer 0 is ${part} times layer ${last}’s: it grows on the way.`;
    case 'explodes':
      return ratio === Infinity
        ? t`The gradient of layer 0 explodes: it is too large for float32.`
        : t`The gradient of layer 0 is ${part} times layer ${last}’s: it explodes (each layer multiplies it by ${each} on average).`;
  }
}

function round(value: number): string {
  return roundNumber(value, 2);
}

/** A curve for a logarithmic chart, relative to its value at index `start` if that is given. Values
 * without a logarithm are null. */
export function curve(values: readonly number[], start?: number): (number | null)[] {
  const unit = start === undefined ? 1 : values.at(start)!;
  return values.map((v) => {
    const shown = v / unit;
    return Number.isFinite(shown) && shown > 0 ? shown : null;
  });
}
