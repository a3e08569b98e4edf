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

type Numbers = ArrayLike<number>;

/** The largest absolute value. */
export function largest(values: Numbers): number {
  return Array.from(values).reduce((most, v) => Math.max(most, Math.abs(v)), 0);
}

export function largestDifference(a: Numbers, b: Numbers): number {
  return largest(Array.from(a, (v, i) => v - b[i]));
}
