// One token through one sublayer, in three arrangements. F is the feed-forward
// network of the library's block.

import type { Block } from 'addnorm';
import { kernels } from '../../kernels/current';
import { addNormToken } from '../../kernels/token';
import { length } from '../../ui/vectors';
import { LAYER_NORM, layerNorm } from './compute';
import { FEATURES } from './state';

export const ARRANGEMENTS = ['plain', 'post', 'pre'] as const;
export type Arrangement = (typeof ARRANGEMENTS)[number];

type Vector = readonly number[];

/** F has three hidden features. Its weights are set by hand; those of the
 * last two input features are 0. */
const HIDDEN = 3;
const UP = [1, -1, 0.5, 0, 0, -0.5, 1, 1, 0, 0, 0.5, 0.5, -1, 0, 0];
const DOWN = [0.6, -0.4, 0.3, -0.3, 0.8, -0.5, 0.4, 0.5, 0.6, 0.7, -0.2, -0.6, -0.5, 0.6, 0.4];
/** The features that F does not read, from 0. */
export const UNREAD = [3, 4];

let block: Block | undefined;

/** A block whose attention adds nothing and whose feed-forward network
 * has neither residual nor norm. */
function sublayer(): Block {
  if (block) return block;
  block = kernels.block({ dModel: FEATURES, heads: 1, dFf: HIDDEN, placement: 'none/plain' });
  block.setParameters({
    'attention.output.weight': new Float32Array(FEATURES * FEATURES),
    'attention.output.bias': new Float32Array(FEATURES),
    'feed_forward.up.weight': Float32Array.from(UP),
    'feed_forward.up.bias': new Float32Array(HIDDEN),
    'feed_forward.down.weight': Float32Array.from(DOWN),
    'feed_forward.down.bias': new Float32Array(FEATURES),
  });
  return block;
}

/** Computes F for all tokens in one call. */
function f(tokens: Vector[]): number[][] {
  const y = sublayer().forward(Float32Array.from(tokens.flat()), { length: 1 });
  return tokens.map((_, i) => Array.from(y.subarray(i * FEATURES, (i + 1) * FEATURES)));
}

/** The values of a token in a sublayer: the input of F, its output, and the sublayer's output. */
export interface Passage {
  reads: Vector;
  gives: Vector;
  leaves: Vector;
}

export function passages(x: Vector): Record<Arrangement, Passage> {
  const normalized = layerNorm(x);
  const [ofX, ofNormalized] = f([x, normalized]);
  const norm = (branch: Vector) => addNormToken(LAYER_NORM, x, branch, 1, 0);
  return {
    plain: { reads: x, gives: ofX, leaves: ofX },
    post: { reads: x, gives: ofX, leaves: norm(ofX).output },
    pre: { reads: normalized, gives: ofNormalized, leaves: norm(ofNormalized).sum },
  };
}

/** A token that differs from x only in the features that F does not read. */
export function other(x: Vector): number[] {
  return x.map((v, i) => (UNREAD.includes(i) ? v + (v > 0 ? -1 : 1) : v));
}

export function distance(a: Vector, b: Vector): number {
  return length(a.map((v, i) => v - b[i]));
}
