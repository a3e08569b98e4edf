// The sentences of “Which axes”, made from the numbers.

import { type Kind, KINDS, type AddNormResult } from 'addnorm';
import { plural, t } from '../../language/text';
import { NORM_NAMES } from '../../ui/names';
import { roundNumber } from '../../ui/numbers';
import { largest, largestDifference } from '../../ui/vectors';
import {
  type Batch,
  type Behaviour,
  type Cell,
  featuresOf,
  normalize,
  REDRAWS,
  setOf,
} from './sets';

export const SETS: Record<Kind, string> = {
  batch: t`one channel, over all samples and positions`,
  layer: t`all features of one sample`,
  rms: t`all features of one sample; no mean is subtracted`,
  instance: t`one channel of one sample, over its positions`,
  group: t`a group of channels of one sample`,
};

export const USES: Record<Kind, string> = {
  batch: t`images [N, C, H, W] in large batches: convolutional networks`,
  layer: t`text [batch, tokens, d_model]: Transformers, recurrent networks`,
  rms: t`text [batch, tokens, d_model]: T5, Llama, Qwen`,
  instance: t`images [N, C, H, W]: style transfer`,
  group: t`images [N, C, H, W] in small batches: detection, segmentation`,
};

/** Outputs that differ by less than this are equal up to rounding. */
const SAME = 1e-9;

/** One or two sentences about a cell, its values and its set. */
export function cellWords(
  kind: Kind,
  batch: Batch,
  x: Float64Array,
  { y, statistics }: AddNormResult<Float64Array>,
  cell: Cell,
): string {
  const i = cell.row * featuresOf(batch) + cell.column;
  const channel = Math.floor(cell.column / batch.positions) + 1;
  const position = (cell.column % batch.positions) + 1;
  const sample = cell.row + 1;
  const place =
    batch.positions > 1
      ? t`Sample ${sample}, channel ${channel}, position ${position}`
      : t`Sample ${sample}, channel ${channel}`;
  const set = setOf(kind, batch, cell);
  const [mean, deviation] = [statistics.mean[set], statistics.deviation[set]];
  const others = x.length / statistics.mean.length - 1;
  const shared =
    others === 0
      ? t`with no other cell`
      : plural(others, 'with {n} other cell', 'with {n} other cells');
  const [value, output] = [roundNumber(x[i]), roundNumber(y[i], 3)];
  if (kind === 'rms') {
    const rms = roundNumber(deviation);
    return (
      t`${place}: ${value}. It shares the root mean square ${rms} ${shared}.` +
      ` ${value} ÷ ${rms} = ${output}.`
    );
  }
  const [m, d] = [roundNumber(mean), roundNumber(deviation)];
  const minus = mean < 0 ? `+ ${m.slice(1)}` : `− ${m}`;
  return (
    t`${place}: ${value}. It shares mean ${m} and deviation ${d} ${shared}.` +
    ` (${value} ${minus}) ÷ ${d} = ${output}.`
  );
}

/** A sentence on whether sample 1 depends on its neighbours. */
export function neighbourWords({ neighbours }: Behaviour): string {
  if (neighbours === null) return t`There are no other samples to depend on.`;
  if (neighbours < SAME) {
    return t`The other samples got new values ${REDRAWS} times. This changed the output of sample 1
      by 0: it does not depend on them.`;
  }
  return t`The other samples got new values ${REDRAWS} times. This changed the output of sample 1 by
    up to ${roundNumber(neighbours, 3)}: it depends on them.`;
}

/** A sentence about small sets; '' if the sets are not small. */
export function setWords(kind: Kind, { setSize }: Behaviour, output: Float64Array): string {
  if (setSize === 1 && largest(output) === 0) {
    return t`${NORM_NAMES[kind]} fails here: each set holds one value, which equals its mean. Every
      output is 0 for every input.`;
  }
  const isSign = output.every((v) => Math.abs(Math.abs(v) - 1) < 0.01);
  if (setSize === 2 && isSign) {
    return t`Each set holds two values, so each output is close to −1 or 1. It shows only which
      value was larger.`;
  }
  return '';
}

/** A sentence that names another norm with the same output here; '' if there is none. */
export function twinWords(kind: Kind, batch: Batch, x: Float64Array, output: Float64Array): string {
  const twins = KINDS.filter(
    (other) => other !== kind && largestDifference(normalize(other, batch, x).y, output) < SAME,
  ).map((other) => NORM_NAMES[other]);
  return twins.length === 0 ? '' : t`Norms with the same output here: ${twins.join(', ')}.`;
}

export function dependsWords({ neighbours }: Behaviour): string {
  if (neighbours === null) return t`there are no others`;
  return neighbours < SAME ? t`no: 0` : t`yes: ${roundNumber(neighbours, 3)}`;
}

/** A sentence about sample 1 as a batch of its own. */
export function aloneWords(kind: Kind, behaviour: Behaviour): string {
  if (behaviour.aloneLargest === 0) return t`fails: every output is 0`;
  const isSame = behaviour.alone < SAME;
  const change = roundNumber(behaviour.alone, 3);
  if (kind !== 'instance' && behaviour.aloneFromInstance < SAME) {
    return isSame ? t`is InstanceNorm` : t`is InstanceNorm: sample 1 changes by up to ${change}`;
  }
  return isSame ? t`works: the same output` : t`sample 1 changes by up to ${change}`;
}
