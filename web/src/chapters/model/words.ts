// The sentences about a reading.

import type { Prediction, PromptReading } from '../../kernels/trained';
import { t } from '../../language/text';
import { capital } from '../../ui/names';
import { fixedNumber, percent, roundNumber } from '../../ui/numbers';
import { mean } from '../../ui/vectors';

/** The RMS of each sublayer's branch, relative to that of the stream that it is added to. */
export function shares({ stream, branch }: Pick<PromptReading, 'stream' | 'branch'>): number[] {
  return branch.map((b, i) => b / stream[i]);
}

type Growth = Pick<PromptReading, 'stream' | 'branch'>;

/** A sentence about the stream's maximum and its end. */
export function growthWords({ stream }: Pick<Growth, 'stream'>): string {
  const last = stream.length - 1;
  const top = stream.indexOf(Math.max(...stream));
  const [start, most, end] = [0, top, last].map((i) => roundNumber(stream[i], 3));
  const begins = t`On this prompt the stream begins with an RMS of ${start}`;
  if (top === last) return t`${begins} and is largest at the end, with ${end}.`;
  if (top === 0) return t`${begins}, its largest, and ends with ${end}.`;
  return t`${begins}, is largest ${placeName(top)}, with ${most}, and ends with ${end}.`;
}

/** The name of a position in the stream, among those before each sublayer. */
function placeName(place: number): string {
  return place % 2 === 0 ? t`before layer ${place / 2}` : t`in layer ${(place - 1) / 2}`;
}

/** A sentence about the shares of the first layer, the middle ones and the last. */
export function priceWords(reading: Growth): string {
  const share = shares(reading);
  const of = (from: number, to?: number) => mean(share.slice(from, to));
  const [first, between, last] = [of(0, 2), of(2, -2), of(-2)];
  const [a, b, c] = [first, between, last].map((part) => percent(part, 2));
  const size = t`On average a branch adds ${a} of the stream’s size in the first layer, ${b} in the
    middle layers and ${c} in the last.`;
  return `${size} ${trendWords(first, between, last)}`;
}

function trendWords(first: number, between: number, last: number): string {
  if (between >= first)
    return t`Here later layers do not change the stream less: they have learned larger branches.`;
  return last > between
    ? t`The middle layers pay this price. The last layer has learned a branch large enough to avoid
      it.`
    : t`So each layer changes the stream less than the layers before it.`;
}

/** Sentences about the layer from which on the final answer is the likeliest byte, and the loss. */
export function lensWords(lens: readonly Pick<Prediction, 'next' | 'loss'>[]): string {
  const answers = lens.map(({ next }) => ranked([...next])[0]);
  const last = lens.length - 1;
  const other = answers.findLastIndex((byte) => byte !== answers[last]);
  const answer = byteName(answers[last]);
  const [start, end] = [lens[0], lens[last]].map(({ loss }) => roundNumber(loss, 3));
  const found =
    other === -1
      ? t`Here the answer of the whole network, ${answer}, is the likeliest byte from the start.`
      : t`Here the answer of the whole network, ${answer}, is the likeliest byte from layer ${other} on.`;
  return `${found} ${t`Over the prompt the loss goes from ${start} after the embedding to ${end} after the last layer.`}`;
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
  return t`At the end feature ${largest} is the largest: its RMS is ${roundNumber(end[largest], 3)},
    ${fixedNumber(times(end), 1)} times that of the median feature. In the embedding the largest was
    ${fixedNumber(times(start), 1)} times the median.`;
}

export function gammaWords(gammas: readonly Float32Array[]): string {
  const all = gammas.flatMap((gamma) => [...gamma]);
  const [least, most] = [Math.min(...all), Math.max(...all)];
  const spread = gammas.map((gamma) => Math.max(...gamma) / Math.max(1e-9, Math.min(...gamma)));
  const widest = spread.indexOf(Math.max(...spread));
  const name = capital(normName(widest, gammas.length));
  return t`Now γ ranges from ${fixedNumber(least, 2)} to ${fixedNumber(most, 2)}. ${name} treats its
    features most unequally.`;
}

/** The name of the norm before this sublayer, or of the final norm. */
export function normName(norm: number, norms: number): string {
  if (norm === norms - 1) return t`the final norm`;
  return t`the norm before ${sublayerName(norm)}`;
}

/** The name of a sublayer, counted over all layers. */
export function sublayerName(sublayer: number): string {
  return sublayer % 2 === 0 ? t`attention ${sublayer >> 1}` : t`feed-forward ${sublayer >> 1}`;
}

/** The layers without which the loss is highest and lowest. */
export function extremes(without: readonly Prediction[]): { worst: number; least: number } {
  const losses = without.map(({ loss }) => loss);
  return {
    worst: losses.indexOf(Math.max(...losses)),
    least: losses.indexOf(Math.min(...losses)),
  };
}

/** The position of a layer, in the words of the guess. */
export function placeOf(layer: number, layers: number): 'first' | 'middle' | 'last' {
  return layer === 0 ? 'first' : layer === layers - 1 ? 'last' : 'middle';
}

export function skipWords({ whole, withoutLayer }: PromptReading): string {
  const { worst, least } = extremes(withoutLayer);
  const [a, b, c] = [whole, withoutLayer[worst], withoutLayer[least]].map(({ loss }) =>
    fixedNumber(loss, 2),
  );
  const losses = t`The whole network’s loss on this prompt is ${a} nats per byte. Without layer ${worst} it is ${b}, without
    layer ${least} only ${c}.`;
  if (worst !== 0) return losses;
  const reason = t`The first layer turns single bytes into the input of all later layers. Without
    it, they get inputs that they never saw in training.`;
  return `${losses} ${reason}`;
}

/** The text for a byte. */
export function byteName(byte: number): string {
  if (byte === 32) return t`space`;
  if (byte === 10) return t`new line`;
  const isPrintable = byte > 32 && byte < 127;
  return isPrintable ? String.fromCharCode(byte) : `0x${byte.toString(16).padStart(2, '0')}`;
}
