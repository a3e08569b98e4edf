// The gradient through a norm, and its parts.

import { kernels } from './current';
import { normalizeToken } from './token';
import type { TokenNorm } from '../ui/names';
import { length, mean, withoutNoise } from '../ui/vectors';

export interface Gradient {
  x: number[];
  normalized: number[];
  deviation: number;
  g: number[]; // γ ⊙ dy
  alongOnes: number[]; // mean(g): the part that centring removes
  alongNormalized: number[]; // x̂·mean(g ⊙ x̂): the part that scaling removes
  remainder: number[];
  dx: number[];
  dGamma: number[];
  dBeta: number[];
}

export function gradientOf(
  kind: TokenNorm,
  x: readonly number[],
  gamma: number,
  dy: readonly number[],
): Gradient {
  const { normalized, deviation } = normalizeToken({ kind }, x);
  const backward = kernels.addNormBackward(Float64Array.from(dy), Float64Array.from(x), {
    kind,
    features: x.length,
    gamma: new Float64Array(x.length).fill(gamma),
  });
  const g = dy.map((v) => gamma * v);
  const meanG = kind === 'layer' ? mean(g) : 0;
  const meanGX = mean(g.map((v, i) => v * normalized[i]));
  const alongNormalized = normalized.map((v) => v * meanGX);
  return {
    x: [...x],
    normalized,
    deviation,
    g,
    alongOnes: g.map(() => meanG),
    alongNormalized,
    remainder: g.map((v, i) => v - meanG - alongNormalized[i]),
    dx: Array.from(backward.dx),
    dGamma: Array.from(backward.dGamma),
    dBeta: Array.from(backward.dBeta),
  };
}

/** The values, with 0 in place of rounding errors of values as large as g ÷ divisor. */
export function withoutRounding(values: readonly number[], g: readonly number[], divisor = 1) {
  return values.map((v) => withoutNoise(v, length(g) / divisor));
}
