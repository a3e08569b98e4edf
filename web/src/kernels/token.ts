// Norms of one token.

import type { NormOptions } from 'addnorm';
import { kernels } from './current';

type Vector = readonly number[];

/** s = x + F(x) and γ·x̂ + β; without F(x), s is x. A single number as γ
 * or β applies to all features. */
export function addNormToken(
  options: NormOptions,
  x: Vector,
  branch: Vector | null,
  gamma: number | Vector,
  beta: number | Vector,
) {
  const features = x.length;
  const each = (v: number | Vector) =>
    typeof v === 'number' ? new Float64Array(features).fill(v) : Float64Array.from(v);
  const { sum, y } = kernels.addNorm(Float64Array.from(x), branch && Float64Array.from(branch), {
    ...options,
    features,
    gamma: each(gamma),
    beta: each(beta),
  });
  return { sum: Array.from(sum), output: Array.from(y) };
}

/** x̂ of one token, and its statistics. */
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
