// Computes the numbers of “Add & Norm” with the library's kernels.

import { computed } from '@preact/signals';
import type { NormOptions } from 'addnorm';
import { kernels } from '../../kernels/current';
import { addNormToken, normalizeToken } from '../../kernels/token';
import { dot, largestDifference, length } from '../../ui/vectors';
import { FEATURES, state } from './state';

/** ε of this chapter: σ = √(variance + ε). */
export const EPSILON = 1e-8;
/** The factor by which Inject Instability multiplies F(x). */
export const INJECTED = 10;

export const LAYER_NORM: NormOptions = { kind: 'layer', epsilon: EPSILON };

export interface Inputs {
  x: readonly number[];
  branch: readonly number[]; // F(x)
  residual: boolean;
  factor: number; // multiplies F(x)
  gamma: number;
  beta: number;
}

export interface AddNorm {
  identity: number[]; // x, or zero where the residual is off
  branch: number[]; // F(x) times its factor
  sum: number[];
  normalized: number[];
  output: number[];
  mean: number;
  deviation: number;
}

export function addNorm({ x, branch, residual, factor, gamma, beta }: Inputs): AddNorm {
  const identity = x.map((v) => (residual ? v : 0));
  const scaled = branch.map((v) => factor * v);
  const { sum, output } = addNormToken(LAYER_NORM, identity, scaled, gamma, beta);
  const { normalized, mean, deviation } = normalizeToken(LAYER_NORM, sum);
  return { identity, branch: scaled, sum, normalized, output, mean, deviation };
}

/** LayerNorm without γ and β. */
export function layerNorm(values: readonly number[]): number[] {
  return normalizeToken(LAYER_NORM, values).normalized;
}

/** The gain of the norm's backward: the size of ds for a dy of size 1. It is the root mean square
 * over five orthogonal directions of dy. */
export function gradientGain(sum: readonly number[]): number {
  const directions = sum.flatMap((_, i) => sum.map((_, j) => Number(i === j)));
  const sums = Float64Array.from(directions, (_, i) => sum[i % FEATURES]);
  const { dx } = kernels.addNormBackward(Float64Array.from(directions), sums, {
    ...LAYER_NORM,
    features: FEATURES,
  });
  return length([...dx]) / Math.sqrt(FEATURES);
}

/** The cosine of two vectors. NaN if one is zero up to rounding and so has no direction. */
export function cosine(a: readonly number[], b: readonly number[]): number {
  const lengths = [length(a), length(b)];
  if (Math.min(...lengths) < 1e-9) return NaN;
  return dot(a, b) / lengths[0] / lengths[1];
}

/** A comparison of the current x̂ with the stable x̂. */
export interface Comparison {
  stable: number[]; // x̂ with F × 1
  ofX: number[]; // LayerNorm(x)
  ofBranch: number[]; // LayerNorm(F)
  withStable: number; // cosines of x̂
  withX: number;
  withBranch: number;
  stableWithX: number; // cosines of the stable x̂
  stableWithBranch: number;
  difference: number; // the largest difference of x̂ and the stable x̂
  deviationRatio: number; // σ ÷ stable σ
  gradientRatio: number;
}

export function compare(inputs: Inputs): Comparison {
  const now = addNorm(inputs);
  const before = addNorm({ ...inputs, factor: 1 });
  const [ofX, ofBranch] = [layerNorm(inputs.x), layerNorm(inputs.branch)];
  const stable = before.normalized;
  return {
    stable,
    ofX,
    ofBranch,
    withStable: cosine(now.normalized, stable),
    withX: cosine(now.normalized, ofX),
    withBranch: cosine(now.normalized, ofBranch),
    stableWithX: cosine(stable, ofX),
    stableWithBranch: cosine(stable, ofBranch),
    difference: largestDifference(now.normalized, stable),
    deviationRatio: now.deviation / before.deviation,
    gradientRatio: gradientGain(now.sum) / gradientGain(before.sum),
  };
}

const inputs = computed<Inputs>(() => ({
  x: state.x.value,
  branch: state.branch.value,
  residual: state.residual.value,
  factor: state.unstable.value ? INJECTED : 1,
  gamma: state.gamma.value,
  beta: state.beta.value,
}));

export const result = computed(() => {
  const found = addNorm(inputs.value);
  if (!state.undone.value) return found;
  return addNorm({ ...inputs.value, gamma: found.deviation, beta: found.mean });
});
export const comparison = computed(() => compare(inputs.value));
/** The change of x̂ when F(x) is multiplied by INJECTED. */
export const changeByInjection = computed(() => {
  const [before, after] = [1, INJECTED].map((factor) => addNorm({ ...inputs.value, factor }));
  return largestDifference(before.normalized, after.normalized);
});
