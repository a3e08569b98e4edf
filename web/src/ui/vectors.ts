// Arithmetic of vectors.

export function sum(values: readonly number[]): number {
  return values.reduce((total, v) => total + v, 0);
}

export function mean(values: readonly number[]): number {
  return sum(values) / values.length;
}

export function dot(a: readonly number[], b: readonly number[]): number {
  return sum(a.map((v, i) => v * b[i]));
}

export function length(values: readonly number[]): number {
  return Math.hypot(...values);
}

/** Rounding errors of float64 in a short computation, relative to the largest number in it. */
const ROUNDING = 1e-12;

/** The value, or 0 if it is no larger than the rounding errors of numbers of this size. */
export function withoutNoise(value: number, size: number): number {
  return Math.abs(value) < ROUNDING * size ? 0 : value;
}

type Numbers = ArrayLike<number>;

/** The largest absolute value. */
export function largest(values: Numbers): number {
  return Array.from(values).reduce((most, v) => Math.max(most, Math.abs(v)), 0);
}

export function largestDifference(a: Numbers, b: Numbers): number {
  return largest(Array.from(a, (v, i) => v - b[i]));
}
