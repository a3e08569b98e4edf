// One token through one sublayer that reads it, in three arrangements: computed by the library's block,
// whose attention is made to add nothing and whose feed-forward network is F.

import type { Block } from 'addnorm';
import { kernels } from '../../kernels/current';
import { length } from '../../ui/vectors';
import { EPSILON, layerNorm } from './compute';
import { FEATURES } from './state';

export const ARRANGEMENTS = ['plain', 'post', 'pre'] as const;
export type Arrangement = (typeof ARRANGEMENTS)[number];

type Vector = readonly number[];

/** F has three hidden features. Its weights are set by hand; those of the last two features are 0. */
const HIDDEN = 3;
const UP = [1, -1, 0.5, 0, 0, -0.5, 1, 1, 0, 0, 0.5, 0.5, -1, 0, 0];
const DOWN = [0.6, -0.4, 0.3, -0.3, 0.8, -0.5, 0.4, 0.5, 0.6, 0.7, -0.2, -0.6, -0.5, 0.6, 0.4];
/** The features that F does not read, from 0. */
export const UNREAD = [3, 4];

const blocks = new Map<Arrangement, Block>();

function blockOf(arrangement: Arrangement): Block {
  const known = blocks.get(arrangement);
  if (known) return known;
  const block = kernels.block({
    dModel: FEATURES,
    heads: 1,
    dFf: HIDDEN,
    placement: `none/${arrangement}`,
    norm: { kind: 'layer', epsilon: EPSILON },
  });
  block.setParameters({
    'attention.output.weight': new Float32Array(FEATURES * FEATURES),
    'attention.output.bias': new Float32Array(FEATURES),
    'feed_forward.up.weight': Float32Array.from(UP),
    'feed_forward.up.bias': new Float32Array(HIDDEN),
    'feed_forward.down.weight': Float32Array.from(DOWN),
    'feed_forward.down.bias': new Float32Array(FEATURES),
  });
  blocks.set(arrangement, block);
  return block;
}

function through(arrangement: Arrangement, x: Vector): number[] {
  return Array.from(blockOf(arrangement).forward(Float32Array.from(x)));
}

/** A token on its way: what F reads, what F gives, what leaves the sublayer. */
export interface Passage {
  reads: Vector;
  gives: Vector;
  leaves: Vector;
}

export function passage(arrangement: Arrangement, x: Vector): Passage {
  const reads = arrangement === 'pre' ? layerNorm(x) : x;
  return { reads, gives: through('plain', reads), leaves: through(arrangement, x) };
}

/** Another token: the same but for what F does not read. */
export function other(x: Vector): number[] {
  return x.map((v, i) => (UNREAD.includes(i) ? v + (v > 0 ? -1 : 1) : v));
}

export function distance(a: Vector, b: Vector): number {
  return length(a.map((v, i) => v - b[i]));
}
