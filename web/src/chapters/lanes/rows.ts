// The selectable arrangements, grouped by the kind of their stream, with a sentence about each.

import { t } from '../../language/text';

export const ROWS = {
  own: {
    label: t`your own`,
    words: t`Every sublayer has the numbers that you set. F reads through a norm, as in pre-norm.`,
  },
  pre: {
    label: t`pre-norm`,
    words: t`The ordinary residual connection: one lane, and all three numbers are 1.`,
  },
  post: {
    label: t`post-norm`,
    words: t`One lane, which goes through a norm after every sum, so that older parts become smaller.`,
  },
  x0: {
    label: t`x₀ again`,
    words: t`Lane 2 keeps the embedding. Attention adds a part of it to lane 1 in every layer.`,
  },
  'two-lanes': {
    label: t`two lanes`,
    words: t`Attention reads lane 1, feed-forward lane 2, and both write to both lanes.`,
  },
  'residual-dual': {
    label: 'ResiDual',
    words: t`Lane 1 is post-norm and is read. Lane 2 is a plain sum, so the gradient has a path past the norms.`,
  },
  siamese: {
    label: 'SiameseNorm',
    words: t`Lane 1 is post-norm, lane 2 pre-norm, and sublayers read both.`,
  },
  hyper: {
    label: t`hyper-connections`,
    words: t`All numbers are learned, without a bound. At the start each sublayer reads one lane, in rotation, and each lane is a pre-norm stream.`,
  },
  mhc: {
    label: 'mHC',
    words: t`Hyper-connections whose A can only average: no entry is below 0, and all rows and columns have the sum 1 (A is doubly stochastic). So no product of them can amplify.`,
  },
  'identity-hc': {
    label: 'Identity-HC',
    words: t`mHC with A = I: lanes are never mixed, only read and written together.`,
  },
  wide: {
    label: t`wide residual`,
    words: t`A = I. Sublayers read the mean of all lanes, and write more to some lanes than to others.`,
  },
  'dense-former': {
    label: 'DenseFormer',
    words: t`The stream grows: each layer keeps its output as a lane, and reads a learned average.`,
  },
  'attention-residuals': {
    label: 'Attention Residuals',
    words: t`The stream grows by a lane for each sublayer. The next one reads an average of all lanes, with softmax weights.`,
  },
  'block-attention-residuals': {
    label: t`Attention Residuals, in blocks`,
    words: t`Like Attention Residuals, but with a lane for each block of layers. The sublayers of a block add to its lane.`,
  },
} as const;

export type RowName = keyof typeof ROWS;
export const ROW_NAMES = Object.keys(ROWS) as RowName[];

export const LABELS = Object.fromEntries(
  ROW_NAMES.map((name) => [name, ROWS[name].label]),
) as Record<RowName, string>;

/** The groups in their order on the page. */
export const GROUPS: { legend: string; names: readonly RowName[] }[] = [
  { legend: t`By hand`, names: ['own'] },
  { legend: t`One lane`, names: ['pre', 'post'] },
  { legend: t`Two lanes`, names: ['x0', 'two-lanes', 'residual-dual', 'siamese'] },
  { legend: t`Several lanes`, names: ['hyper', 'mhc', 'identity-hc', 'wide'] },
  {
    legend: t`The stream grows: memory over depth`,
    names: ['dense-former', 'attention-residuals', 'block-attention-residuals'],
  },
];
