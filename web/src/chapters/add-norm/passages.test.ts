// Checks the three arrangements against their formulas, with F written out in float64.

import { beforeAll, expect, test } from 'vitest';
import { loadKernels, setKernels } from '../../kernels/current';
import { layerNorm } from './compute';
import { distance, other, passages } from './passages';

beforeAll(async () => setKernels(await loadKernels()));

const tokens = [
  [0.8, -0.4, 0.3, -0.7, 0.5],
  [-1, 1, 0.25, 0, 0.6],
  [0.1, 0.9, -0.8, 1, -1],
];

const up = [
  [1, -1, 0.5],
  [-0.5, 1, 1],
  [0.5, 0.5, -1],
];
const down = [
  [0.6, -0.4, 0.3],
  [-0.3, 0.8, -0.5],
  [0.4, 0.5, 0.6],
  [0.7, -0.2, -0.6],
  [-0.5, 0.6, 0.4],
];

/** x·Φ(x), with Φ computed by integrating the normal density. */
function gelu(x: number): number {
  const [parts, step] = [2000, x / 2000];
  const density = (t: number) => Math.exp(-t * t * 0.5) / Math.sqrt(2 * Math.PI);
  let area = 0;
  for (let i = 0; i < parts; i++) area += step * density((i + 0.5) * step);
  return x * (0.5 + area);
}

const product = (matrix: number[][], x: readonly number[]) =>
  matrix.map((row) => row.reduce((sum, w, i) => sum + w * x[i], 0));
const f = (x: readonly number[]) => product(down, product(up, x).map(gelu));
const plus = (a: readonly number[], b: readonly number[]) => a.map((v, i) => v + b[i]);

function expectClose(found: readonly number[], wanted: readonly number[]) {
  expect(found).toHaveLength(wanted.length);
  wanted.forEach((v, i) => expect(found[i]).toBeCloseTo(v, 5));
}

test.each(tokens)('plain, post and pre are their formulas: %d, %d, %d, %d, %d', (...x) => {
  const { plain, post, pre } = passages(x);
  expectClose(plain.gives, f(x));
  expectClose(plain.leaves, f(x));
  expectClose(post.leaves, layerNorm(plus(x, f(x))));
  expectClose(pre.reads, layerNorm(x));
  expectClose(pre.leaves, plus(x, f(layerNorm(x))));
});

test.each(tokens)('what F does not read is lost without a residual alone: %d, …', (...x) => {
  const apart = (a: 'plain' | 'post' | 'pre') =>
    distance(passages(x)[a].leaves, passages(other(x))[a].leaves);
  expect(distance(x, other(x))).toBeCloseTo(Math.SQRT2, 12);
  expect(other(x).every((v) => Math.abs(v) <= 1)).toBe(true);
  expect(apart('plain')).toBe(0);
  expect(apart('post')).toBeGreaterThan(0.5);
  expect(apart('pre')).toBeGreaterThan(0.5);
});
