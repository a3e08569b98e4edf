import { beforeAll, expect, test } from 'vitest';
import { loadKernels, setKernels } from './current';
import { dot, length } from '../ui/vectors';
import { gradientOf } from './gradient';

beforeAll(async () => setKernels(await loadKernels()));

const x = [1.2, -0.6, 0.4, 2, -1.4, 0.2];
const dy = [1, -0.5, 0.8, 0.6, 0.3, -1.2];
const ones = x.map(() => 1);

test.each(['layer', 'rms'] as const)(
  '%s: the parts add up to g, and the remainder ÷ σ is dx',
  (kind) => {
    for (const size of [0.1, 1, 100]) {
      const d = gradientOf(
        kind,
        x.map((v) => v * size),
        1.7,
        dy,
      );
      x.forEach((_, i) => {
        expect(d.g[i]).toBeCloseTo(1.7 * dy[i], 12);
        expect(d.alongOnes[i] + d.alongNormalized[i] + d.remainder[i]).toBeCloseTo(d.g[i], 12);
        expect(d.dx[i] * d.deviation).toBeCloseTo(d.remainder[i], 12);
        expect(d.dGamma[i]).toBeCloseTo(dy[i] * d.normalized[i], 12);
        expect(d.dBeta[i]).toBe(dy[i]);
      });
    }
  },
);

test('dx by differences of the loss Σ dy ⊙ γ·x̂', () => {
  const loss = (values: number[]) => dot(gradientOf('layer', values, 1.7, dy).normalized, dy) * 1.7;
  const { dx } = gradientOf('layer', x, 1.7, dy);
  const h = 1e-5;
  x.forEach((_, i) => {
    const moved = (by: number) => loss(x.map((v, j) => (i === j ? v + by : v)));
    expect((moved(h) - moved(-h)) / (2 * h)).toBeCloseTo(dx[i], 7);
  });
});

test('LayerNorm leaves nothing along 1 and x̂; RMSNorm nothing along x̂', () => {
  const layer = gradientOf('layer', x, 1, dy);
  expect(dot(layer.dx, ones)).toBeCloseTo(0, 12);
  expect(Math.abs(dot(layer.dx, layer.normalized))).toBeLessThan(1e-4);
  const rms = gradientOf('rms', x, 1, dy);
  expect(Math.abs(dot(rms.dx, ones))).toBeGreaterThan(0.1);
  expect(Math.abs(dot(rms.dx, rms.normalized))).toBeLessThan(1e-4);
});

test('a larger x: dx shrinks as 1/σ', () => {
  const lengthAt = (size: number) =>
    length(
      gradientOf(
        'layer',
        x.map((v) => v * size),
        1,
        dy,
      ).dx,
    );
  expect(lengthAt(10) / lengthAt(100)).toBeCloseTo(10, 4);
});
