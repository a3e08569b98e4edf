// The distribution of values: dots and a smooth curve for few values, a histogram for many.

export const HISTOGRAM_FROM = 20;

export interface Interval {
  low: number;
  high: number;
}

/** An interval that contains all values with a margin at both ends. */
export function intervalOf(values: readonly number[], least?: Interval): Interval {
  const finite = values.filter(Number.isFinite);
  const low = Math.min(...finite, least?.low ?? Infinity);
  const high = Math.max(...finite, least?.high ?? -Infinity);
  const air = high > low ? 0.06 * (high - low) : Math.max(1, 0.1 * Math.abs(low));
  return { low: low - air, high: high + air };
}

/** The number of values in each of `bins` equal parts of the interval. */
export function histogram(values: readonly number[], { low, high }: Interval, bins: number) {
  const counts = new Array<number>(bins).fill(0);
  for (const v of values) {
    const bin = Math.floor(((v - low) / (high - low)) * bins);
    counts[Math.min(bins - 1, Math.max(0, bin))]++;
  }
  return counts;
}

/** The width of the normal curve around each value, by Silverman’s rule. */
export function smoothing(count: number, deviation: number): number {
  return 1.06 * deviation * count ** -0.2;
}

/** The density at a point: the mean of a normal curve around each value. */
export function density(values: readonly number[], width: number, at: number): number {
  const heights = values.map((v) => Math.exp(-0.5 * ((at - v) / width) ** 2));
  return heights.reduce((a, b) => a + b, 0) / (values.length * width * Math.sqrt(2 * Math.PI));
}
