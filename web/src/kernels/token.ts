// A norm of one token.

import type { NormOptions } from 'addnorm';
import { kernels } from './current';

/** x̂ of one token with its statistics. */
export function normalizeToken(options: NormOptions, x: readonly number[]) {
  const values = Float64Array.from(x);
  const { y, statistics } = kernels.addNorm(values, null, { ...options, features: x.length });
  return {
    normalized: Array.from(y),
    mean: statistics.mean[0],
    variance: statistics.variance[0],
    deviation: statistics.deviation[0],
  };
}
