import type { NormOptions } from 'addnorm';
import { beforeAll, describe, expect, test } from 'vitest';
import { loadKernels, setKernels } from '../../kernels/current';
import { addNormToken } from '../../kernels/token';
import { deviationFormula, meanFormula, normalizeFormula, texSum } from './arithmetic';
import { density, histogram, intervalOf, smoothing } from './distribution';
import { features512 } from './examples';
import { changeOfNormalized, measure, remarks, type Steps, takeSteps } from './steps';

beforeAll(async () => setKernels(await loadKernels()));

const torch: NormOptions = {
  kind: 'layer',
  variance: 'population',
  epsilon: 1e-5,
  epsilonAt: 'variance',
};
const steps = (x: number[], options = torch) => takeSteps(options, x) as Steps;

describe('the steps', () => {
  test('of 1, 2, 3, 4', () => {
    const { mean, variance, deviation, normalized } = steps([1, 2, 3, 4]);
    expect([mean, variance]).toEqual([2.5, 1.25]);
    expect(deviation).toBeCloseTo(Math.sqrt(1.25001), 12);
    expect(normalized[0]).toBeCloseTo(-1.5 / Math.sqrt(1.25001), 12);
    expect(addNormToken(torch, [1, 2, 3, 4], null, 2, -1).output[3]).toBeCloseTo(
      2 * normalized[3] - 1,
      12,
    );
  });

  test('of what the kernels cannot use, in their words', () => {
    expect(takeSteps({ ...torch, variance: 'unbiased' }, [5])).toMatch(/^the unbiased variance/);
  });

  test('see neither shift nor scale; RMSNorm sees a shift', () => {
    const rms: NormOptions = { ...torch, kind: 'rms' };
    const x = [1, 2, 3, 4];
    expect(changeOfNormalized(torch, steps(x), (v) => v + 10)).toBeLessThan(1e-12);
    expect(changeOfNormalized(torch, steps(x), (v) => 10 * v)).toBeLessThan(1e-5);
    expect(changeOfNormalized(rms, steps(x, rms), (v) => 10 * v)).toBeLessThan(1e-5);
    expect(changeOfNormalized(rms, steps(x, rms), (v) => v + 10)).toBeGreaterThan(0.1);
  });
});

test.each<[string, number[], Partial<NormOptions>, RegExp]>([
  ['equal values', [3, 3], {}, /All values are equal/],
  ['0 ÷ 0', [3, 3], { epsilon: 0 }, /NaN/],
  ['one value', [3], {}, /single value/],
  ['squares beyond float64', [1e300, -1e300], {}, /too large/],
  ['squares below float64', [1e-300, -1e-300], { epsilon: 0 }, /too small/],
  ['a large ε', [0.1, 0.2], { epsilon: 0.1 }, /ε determines/],
])('a remark on %s', (_, x, options, expected) => {
  const all = { ...torch, ...options };
  expect(remarks(all, steps(x, all)).join(' ')).toMatch(expected);
});

test('no remark on ordinary values', () => {
  expect(remarks(torch, steps([1, 2, 3, 4]))).toEqual([]);
});

test('the 512 features have the mean and the deviation that the text gives them', () => {
  expect(features512).toHaveLength(512);
  const { mean, deviation } = measure(features512, torch);
  expect(mean).toBeCloseTo(0.135, 3);
  expect(deviation).toBeCloseTo(0.048, 3);
});

describe('the arithmetic', () => {
  test('has the numbers in place', () => {
    expect(meanFormula(steps([1, 2, 3, 4]))).toContain('\\frac{1 + 2 + 3 + 4}{4}');
    const deviation = deviationFormula(torch, steps([1, 2, 3, 4]));
    expect(deviation).toContain('\\frac{(-1.5)^2 + (-0.5)^2 + 0.5^2 + 1.5^2}{4}');
    expect(deviation).toContain('\\sqrt{1.25 + 10^{-5}}');
    expect(deviation).toContain('\\approx 1.1180385');
    expect(normalizeFormula(torch, steps([1, 2, 3, 4]))).toContain('\\approx -1.34164');
  });
  test('follows the convention', () => {
    const options: NormOptions = {
      kind: 'layer',
      variance: 'unbiased',
      epsilon: 1e-6,
      epsilonAt: 'deviation',
    };
    const text = deviationFormula(options, steps([1, 2, 3, 4], options));
    expect(text).toContain('{4 - 1}');
    expect(text).toContain('\\sqrt{1.6666667} + 10^{-6}');
  });
  test('shortens long sums', () => {
    const terms = Array.from({ length: 512 }, (_, i) => `${i}`);
    expect(texSum(terms)).toBe('0 + 1 + 2 + \\cdots + 511');
  });
});

test('a histogram counts every value', () => {
  const x = [1, 1, 2, 3, 10];
  const counts = histogram(x, intervalOf(x), 8);
  expect(counts.reduce((a, b) => a + b)).toBe(5);
  expect(counts[0]).toBe(2);
  expect(counts.at(-1)).toBe(1);
});

test('the curve has area 1, and is moved and stretched with its values', () => {
  const x = [1, 2, 3, 4];
  const width = smoothing(4, Math.sqrt(1.25));
  const places = Array.from({ length: 2000 }, (_, i) => -10 + 0.0125 * i);
  const area = places.reduce((sum, at) => sum + 0.0125 * density(x, width, at), 0);
  expect(area).toBeCloseTo(1, 6);
  const moved = x.map((v) => 3 * v - 7);
  for (const at of [-1, 1.5, 2, 4.7]) {
    const there = density(moved, smoothing(4, 3 * Math.sqrt(1.25)), 3 * at - 7);
    expect(3 * there).toBeCloseTo(density(x, width, at), 12);
  }
});
