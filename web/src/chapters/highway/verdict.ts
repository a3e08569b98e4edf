// What a stack does to signal and gradient, in numbers and in words. The bounds are those of
// `addnorm study`: beyond a hundredth or a hundredfold a signal is of no use to a layer.

import type { Measurement } from '../../kernels/kernels';
import { roundNumber } from '../../ui/numbers';
import { LANES } from './stacks';

export type Fate = 'vanishes' | 'keeps' | 'explodes' | 'overflows';

export function fateOf(ratio: number): Fate {
  if (!Number.isFinite(ratio)) return 'overflows';
  if (ratio < 1e-2) return 'vanishes';
  return ratio > 1e2 ? 'explodes' : 'keeps';
}

export interface Ends {
  signal: number; // what the last layer leaves, over what layer 0 reads
  gradient: number; // at layer 0, over that at the last layer
}

export function endsOf({ stream, gradient }: Measurement): Ends {
  const ratio = (a: number, b: number) => (a === 0 ? 0 : a / b);
  return {
    signal: ratio(stream.at(-1)!, stream[0]),
    gradient: ratio(gradient[0], gradient[gradient.length - 2]),
  };
}

/** "The signal shrinks to 0.05 of its size. The gradient of layer 0 is 3e-36 of layer 29’s: …" */
export function verdict(measurement: Measurement): string {
  const ends = endsOf(measurement);
  const layers = measurement.stream.length - 1;
  return `${signalSentence(ends.signal, measurement)} ${gradientSentence(ends.gradient, layers)}`;
}

function signalSentence(ratio: number, { stream }: Measurement): string {
  switch (fateOf(ratio)) {
    case 'overflows': {
      const last = stream.findLastIndex(Number.isFinite);
      return `The signal explodes: layer ${last} leaves more than float32 can hold.`;
    }
    case 'vanishes':
      return ratio === 0
        ? 'The signal vanishes: what is left is too small for float32.'
        : `The signal vanishes: ${round(ratio)} of its size is left.`;
    case 'explodes':
      return `The signal explodes: it grows ${round(ratio)}-fold.`;
    default:
      return `The signal ends at ${round(ratio)} times its size.`;
  }
}

function gradientSentence(ratio: number, layers: number): string {
  const last = `layer ${layers - 1}’s`;
  const each = `each layer multiplies it by ${round(ratio ** (1 / (layers - 1)))} on average`;
  switch (fateOf(ratio)) {
    case 'overflows':
      return 'So there is no gradient: it is not a number.';
    case 'vanishes':
      return ratio === 0
        ? 'The gradient of layer 0 is 0: on its way it became too small for float32.'
        : `The gradient of layer 0 is ${round(ratio)} of ${last}: it vanishes (${each}).`;
    case 'explodes':
      return `The gradient of layer 0 is ${round(ratio)} times ${last}: it explodes (${each}).`;
    default:
      return `The gradient of layer 0 is ${round(ratio)} times ${last}: it arrives.`;
  }
}

const list = new Intl.ListFormat('en');

/** Of each stack's gradients with all first weights: which stacks never lose it. */
export function summary(gradients: number[][]): string {
  const keeps = gradients.map((ratios) => ratios.every((ratio) => fateOf(ratio) === 'keeps'));
  const sound = LANES.filter((_, lane) => keeps[lane]).map(({ name }) => `“${name}”`);
  if (sound.length === 0) return 'At this depth no stack keeps its gradient with all three.';
  if (sound.length === LANES.length) return 'This stack is shallow enough for all four.';
  const verb = sound.length === 1 ? 'keeps' : 'keep';
  const who = `${list.format(sound)} ${verb} the gradient`;
  return `At this depth ${who} with all three; the others do not.`;
}

function round(value: number): string {
  return roundNumber(value, 2);
}

/** A curve for a logarithmic chart; relative to its value at `start` unless that is undefined.
 * What has no logarithm is null. */
export function curve(values: readonly number[], start?: number): (number | null)[] {
  const unit = start === undefined ? 1 : values.at(start)!;
  return values.map((v) => {
    const shown = v / unit;
    return Number.isFinite(shown) && shown > 0 ? shown : null;
  });
}
