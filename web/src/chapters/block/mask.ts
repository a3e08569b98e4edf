// Measures the effect of the causal mask on a small block with initial weights and random tokens.

import type { BlockParameters } from 'addnorm';
import { kernels } from '../../kernels/current';
import { normal } from '../../ui/random';
import type { BlockNorm } from './model';
import { TOKENS } from './state';

export const WIDTH = 16;

const SEED = 3;

export interface Attention {
  weights: number[][]; // row t: the weights with which token t reads each token
  changes: number[]; // RMS change of each token's output when one token is replaced
}

/** A small block with its initial weights. */
export function firstBlock(placement: BlockNorm) {
  return kernels.block({
    dModel: WIDTH,
    heads: 1,
    dFf: 4 * WIDTH,
    placement,
    feedForward: 'relu',
    initialization: 'xavier',
    seed: SEED,
  });
}

/** Measures attention. `replaced` is the replaced token, from 0. */
export function attentionOf(placement: BlockNorm, causal: boolean, replaced: number): Attention {
  const block = firstBlock(placement);
  const x = tokens();
  const other = tokens(replaced);
  const changes = differences(block.forward(x, { causal }), block.forward(other, { causal }));
  const read = placement === 'pre' ? kernels.layerNorm(x, { features: WIDTH }) : x;
  const weights = weightsOf(block.parameters(), read, causal);
  block.dispose();
  return { weights, changes };
}

/** The tokens' features. One token may be replaced by another. */
function tokens(replaced?: number): Float32Array {
  const draw = normal(SEED);
  const x = Float32Array.from({ length: TOKENS * WIDTH }, draw);
  if (replaced !== undefined) {
    for (let i = 0; i < WIDTH; i++) x[replaced * WIDTH + i] = draw();
  }
  return x;
}

function differences(a: Float32Array, b: Float32Array): number[] {
  return Array.from({ length: TOKENS }, (_, t) => {
    const [u, v] = [a, b].map((all) => all.subarray(t * WIDTH, (t + 1) * WIDTH));
    return Math.sqrt(u.reduce((sum, value, i) => sum + (value - v[i]) ** 2, 0) / WIDTH);
  });
}

/** The attention weights of the block's only head. The kernels never store them. A second block
 * therefore writes them into features of its output. It has the queries and keys of the first block,
 * the value of token s is the unit vector s, and its feed-forward network is off. Each token consists
 * of the features that attention reads, a unit vector for its position, and zeros for the weights. */
function weightsOf(given: BlockParameters, read: Float32Array, causal: boolean): number[][] {
  const [place, room, width] = [WIDTH, WIDTH + TOKENS, WIDTH + 2 * TOKENS];
  const block = kernels.block({ dModel: width, heads: 1, dFf: 1, placement: 'none' });
  const zero = Object.entries(block.shapes).map(([name, [rows, columns]]) => [
    name,
    new Float32Array(rows * columns),
  ]);
  const set: BlockParameters = Object.fromEntries(zero);
  // Scores are divided by the root of the width, which is larger in the second block.
  put(set, 'attention.query', given, Math.sqrt(width / WIDTH), width);
  put(set, 'attention.key', given, 1, width);
  for (let s = 0; s < TOKENS; s++) {
    set['attention.value.weight'][s * width + place + s] = 1;
    set['attention.output.weight'][(room + s) * width + s] = 1;
  }
  block.setParameters(set);
  const x = new Float32Array(TOKENS * width);
  for (let t = 0; t < TOKENS; t++) {
    x.set(read.subarray(t * WIDTH, (t + 1) * WIDTH), t * width);
    x[t * width + place + t] = 1;
  }
  const y = block.forward(x, { causal });
  block.dispose();
  return Array.from({ length: TOKENS }, (_, t) =>
    Array.from(y.subarray(t * width + room, t * width + room + TOKENS)),
  );
}

/** Puts a linear map of the first features into a wider one. */
function put(
  to: BlockParameters,
  name: string,
  from: BlockParameters,
  scale: number,
  width: number,
) {
  const [weight, bias] = [from[`${name}.weight`], from[`${name}.bias`]];
  for (let row = 0; row < WIDTH; row++) {
    to[`${name}.bias`][row] = scale * bias[row];
    for (let column = 0; column < WIDTH; column++) {
      to[`${name}.weight`][row * width + column] = scale * weight[row * WIDTH + column];
    }
  }
}
