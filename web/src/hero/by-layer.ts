// Summarizes the measurements of all tokens by layer.

import type { Measurement, TokenMeasurement } from '../kernels/kernels';
import { mean, sum } from '../ui/vectors';

/** The rows of a flat array. */
function rows(values: Float64Array, length: number): number[][] {
  const row = (_: unknown, i: number) => [...values.subarray(i * length, (i + 1) * length)];
  return Array.from({ length: values.length / length }, row);
}

/** The RMS over all tokens and the mean cosine of two different tokens, as sessions compute them. */
export function byLayer({ tokens, loss, stream, gradient, cosine }: TokenMeasurement): Measurement {
  const rms = (values: number[]) => Math.sqrt(mean(values.map((v) => v * v)));
  return {
    loss,
    stream: rows(stream, tokens).map(rms),
    gradient: rows(gradient, tokens).map(rms),
    tokenCosine: rows(cosine, tokens * tokens).map(
      (all) => (sum(all) - tokens) / (tokens * (tokens - 1)),
    ),
  };
}
