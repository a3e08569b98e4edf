// Checks the numbers and the verdict of “Add & Norm” against the formula.

import { beforeAll, expect, test } from 'vitest';
import { loadKernels, setKernels } from '../../kernels/current';
import { uniform } from '../../ui/random';
import { addNorm, compare, cosine, gradientGain, type Inputs, layerNorm } from './compute';
import { drawValues, state } from './state';
import { verdict } from './verdict';

beforeAll(async () => setKernels(await loadKernels()));

const initial: Inputs = {
  x: [0.8, -0.4, 0.3, -0.7, 0.5],
  branch: [0.2, 0.6, -0.5, -0.3, 0.9],
  residual: true,
  factor: 1,
  gamma: 1,
  beta: 0,
};

function byFormula({ x, branch, residual, factor, gamma, beta }: Inputs) {
  const sum = x.map((v, i) => (residual ? v : 0) + factor * branch[i]);
  const mean = sum.reduce((a, b) => a + b) / sum.length;
  const variance = sum.reduce((total, v) => total + (v - mean) ** 2, 0) / sum.length;
  const deviation = Math.sqrt(variance + 1e-8);
  const normalized = sum.map((v) => (v - mean) / deviation);
  return { sum, mean, deviation, normalized, output: normalized.map((v) => gamma * v + beta) };
}

function expectClose(found: readonly number[], wanted: readonly number[]) {
  expect(found).toHaveLength(wanted.length);
  wanted.forEach((v, i) => expect(found[i]).toBeCloseTo(v, 12));
}

test.each<Partial<Inputs>>([
  {},
  { factor: 10 },
  { residual: false },
  { residual: false, factor: 10, gamma: 0.1, beta: -2 },
  { gamma: 3, beta: 2 },
  { x: [1, 1, 1, 1, 1], branch: [-1, -1, -1, -1, -1] }, // σ = √ε
])('addNorm is the formula: %o', (change) => {
  const inputs = { ...initial, ...change };
  const [found, wanted] = [addNorm(inputs), byFormula(inputs)];
  expectClose(found.sum, wanted.sum);
  expectClose(found.normalized, wanted.normalized);
  expectClose(found.output, wanted.output);
  expectClose([found.mean, found.deviation], [wanted.mean, wanted.deviation]);
});

test('without the residual, x̂ of ten times F is x̂ of F, and the gradient is a tenth', () => {
  const c = compare({ ...initial, residual: false, factor: 10 });
  expect(c.difference).toBeGreaterThan(0); // because of ε
  expect(c.difference).toBeLessThan(1e-6);
  expect(c.deviationRatio).toBeCloseTo(10, 5);
  expect(c.gradientRatio).toBeCloseTo(0.1, 6);
  expect(verdict(c, true, false)).toContain('x̂ has not changed');
});

test('with the residual x̂ moves toward LayerNorm(F): x has little effect', () => {
  const c = compare({ ...initial, factor: 10 });
  expect(c.withStable).toBeLessThan(0.9);
  expect(c.withBranch).toBeGreaterThan(0.99);
  expect(c.deviationRatio * c.gradientRatio).toBeCloseTo(1, 6);
  const text = verdict(c, true, true);
  expect(text).toContain('x has little effect');
  expect(text).toContain(c.withStable.toFixed(2));
});

test('the gradient that the norm lets through is √((d − 2)/d)/σ', () => {
  const { sum, deviation } = addNorm(initial);
  expect(gradientGain(sum)).toBeCloseTo(Math.sqrt(3 / 5) / deviation, 6);
});

test('over uniform draws: median cosines 0.81 and 0.996, σ about 7 times', () => {
  const random = uniform(1);
  const draw = () => Array.from({ length: 5 }, () => 2 * random() - 1);
  const found = Array.from({ length: 2001 }, () =>
    compare({ ...initial, x: draw(), branch: draw(), factor: 10 }),
  );
  const median = (values: number[]) => values.sort((a, b) => a - b)[1000];
  expect(median(found.map((c) => c.withStable))).toBeCloseTo(0.81, 1);
  expect(median(found.map((c) => c.withBranch))).toBeCloseTo(0.996, 2);
  expect(median(found.map((c) => c.deviationRatio))).toBeCloseTo(7, 0);
});

test('a vector of equal values has no cosine, and the sentence says so', () => {
  expect(cosine(layerNorm([0.3, 0.3, 0.3, 0.3, 0.3]), [1, 2, 3, 4, 5])).toBeNaN();
  const c = compare({ ...initial, branch: [0, 0, 0, 0, 0], factor: 10 });
  expect(verdict(c, true, true)).toContain('no cosine');
  expect(verdict(c, true, true)).not.toContain('NaN');
});

test('new values have two decimals and lie from −1 to 1', () => {
  drawValues();
  for (const v of [...state.x.value, ...state.branch.value]) {
    expect(Math.abs(v)).toBeLessThanOrEqual(1);
    expect(v).toBe(Number(v.toFixed(2)));
  }
  expect(state.x.value).not.toEqual(state.branch.value);
});
