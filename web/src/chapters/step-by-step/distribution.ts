// The distribution of values: dots on a number line for a few, a histogram for many.

export const HISTOGRAM_FROM = 20;

export interface Interval {
  low: number;
  high: number;
}

/** An interval with all values and a margin at both ends. */
export function intervalOf(values: readonly number[], least?: Interval): Interval {
  const finite = values.filter(Number.isFinite);
  const low = Math.min(...finite, least?.low ?? Infinity);
  const high = Math.max(...finite, least?.high ?? -Infinity);
  const air = high > low ? 0.06 * (high - low) : Math.max(1, 0.1 * Math.abs(low));
  return { low: low - air, high: high + air };
}

/** How many values lie in each of `bins` equal parts of the interval. */
export function histogram(values: readonly number[], { low, high }: Interval, bins: number) {
  const counts = new Array<number>(bins).fill(0);
  for (const v of values) {
    const bin = Math.floor(((v - low) / (high - low)) * bins);
    counts[Math.min(bins - 1, Math.max(0, bin))]++;
  }
  return counts;
}
