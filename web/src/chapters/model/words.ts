// What a reading shows, in sentences.

import type { Prediction, PromptReading } from '../../kernels/trained';
import { capital } from '../../ui/names';
import { fixedNumber, percent, roundNumber } from '../../ui/numbers';

/** Each sublayer's branch over the stream that it is added to, as RMS. */
export function shares({ stream, branch }: Pick<PromptReading, 'stream' | 'branch'>): number[] {
  return branch.map((b, i) => b / stream[i]);
}

export function growthWords(reading: Pick<PromptReading, 'stream' | 'branch'>): string {
  const { stream } = reading;
  const [first, last] = [stream[0], stream.at(-1)!];
  const ratio = last / first;
  const change = ratio > 1.05 ? `grows ${roundNumber(ratio, 2)}-fold` : 'does not grow';
  const share = shares(reading);
  const [least, most] = [Math.min(...share), Math.max(...share)];
  const named = (v: number) => `${percent(v, 2)} (${sublayerName(share.indexOf(v))})`;
  return (
    `On this prompt the stream ${change}, from an RMS of ${roundNumber(first, 3)} to ` +
    `${roundNumber(last, 3)}. A branch has from ${named(least)} to ${named(most)} of the size of ` +
    'what it is added to.'
  );
}

/** The features by their size at the end, the largest first. */
export function ranked(features: readonly number[]): number[] {
  return features.map((_, f) => f).sort((a, b) => features[b] - features[a]);
}

export function median(values: ArrayLike<number>): number {
  const sorted = Array.from(values).sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

export function featureWords(features: readonly number[][]): string {
  const times = (row: readonly number[]) => Math.max(...row) / median(row);
  const [start, end] = [features[0], features.at(-1)!];
  const [largest] = ranked(end);
  return (
    `At the end feature ${largest} is the largest: its RMS is ${roundNumber(end[largest], 3)}, ` +
    `${fixedNumber(times(end), 1)} times that of the median feature. In the embedding the largest ` +
    `was ${fixedNumber(times(start), 1)} times the median.`
  );
}

export function gammaWords(gammas: readonly Float32Array[]): string {
  const all = gammas.flatMap((gamma) => [...gamma]);
  const [least, most] = [Math.min(...all), Math.max(...all)];
  const spread = gammas.map((gamma) => Math.max(...gamma) / Math.max(1e-9, Math.min(...gamma)));
  const widest = spread.indexOf(Math.max(...spread));
  return (
    `Now they run from ${fixedNumber(least, 2)} to ${fixedNumber(most, 2)}. ` +
    `${capital(normName(widest, gammas.length))} treats its features most unequally.`
  );
}

/** The norm before this sublayer, or the final one. */
export function normName(norm: number, norms: number): string {
  if (norm === norms - 1) return 'the final norm';
  return `the norm before ${sublayerName(norm)}`;
}

/** Of the sublayers counted over all layers. */
export function sublayerName(sublayer: number): string {
  return `${sublayer % 2 === 0 ? 'attention' : 'feed-forward'} ${sublayer >> 1}`;
}

/** The layers whose loss is the highest and the lowest. */
export function extremes(without: readonly Prediction[]): { worst: number; least: number } {
  const losses = without.map(({ loss }) => loss);
  return {
    worst: losses.indexOf(Math.max(...losses)),
    least: losses.indexOf(Math.min(...losses)),
  };
}

/** Where a layer stands, as the guesses call it. */
export function placeOf(layer: number, layers: number): 'first' | 'middle' | 'last' {
  return layer === 0 ? 'first' : layer === layers - 1 ? 'last' : 'middle';
}

const FIRST =
  ' The first layer makes of single bytes what all others read: without it they read what they ' +
  'have never seen.';

export function skipWords({ whole, withoutLayer }: PromptReading): string {
  const { worst, least } = extremes(withoutLayer);
  const loss = (layer: number) => fixedNumber(withoutLayer[layer].loss, 2);
  return (
    `The whole network’s loss on this prompt is ${fixedNumber(whole.loss, 2)} nats a byte. ` +
    `Without layer ${worst} it is ${loss(worst)}, without layer ${least} only ${loss(least)}.` +
    (worst === 0 ? FIRST : '')
  );
}

/** A byte as a reader sees it. */
export function byteName(byte: number): string {
  if (byte === 32) return 'space';
  if (byte === 10) return 'new line';
  const isPrintable = byte > 32 && byte < 127;
  return isPrintable ? String.fromCharCode(byte) : `0x${byte.toString(16).padStart(2, '0')}`;
}
