// Arithmetic of vectors.

export function dot(a: readonly number[], b: readonly number[]): number {
  return a.reduce((sum, v, i) => sum + v * b[i], 0);
}

export function length(values: readonly number[]): number {
  return Math.hypot(...values);
}
