// Norms of one token.

import type { NormOptions } from 'addnorm';
import { kernels } from './current';

type Vector = readonly number[];

/** s = x + F(x) and γ·x̂ + β, with one γ and one β for all features; without F(x), s is x. */
export function addNormToken(
  options: NormOptions,
  x: Vector,
  branch: Vector | null,
  gamma: number,
  beta: number,
) {
  const features = x.length;
  const { sum, y } = kernels.addNorm(Float64Array.from(x), branch && Float64Array.from(branch), {
    ...options,
    features,
    gamma: new Float64Array(features).fill(gamma),
    beta: new Float64Array(features).fill(beta),
  });
  return { sum: Array.from(sum), output: Array.from(y) };
}

/** x̂ of one token with its statistics. */
export function normalizeToken(options: NormOptions, x: Vector) {
  const values = Float64Array.from(x);
  const { y, statistics } = kernels.addNorm(values, null, { ...options, features: x.length });
  return {
    normalized: Array.from(y),
    mean: statistics.mean[0],
    variance: statistics.variance[0],
    deviation: statistics.deviation[0],
  };
}
