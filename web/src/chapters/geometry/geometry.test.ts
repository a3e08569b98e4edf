// Checks by algebra the moves that the kernels compute, and the curves on which they end.

import { beforeAll, describe, expect, test } from 'vitest';
import { gradientOf } from '../../kernels/gradient';
import { loadKernels, setKernels } from '../../kernels/current';
import { normal } from '../../ui/random';
import { dot, length, sum } from '../../ui/vectors';
import { movesOf, near } from './moves';
import {
  add,
  cross,
  layerCurve,
  meridians,
  ONES,
  outline,
  RADIUS,
  spaceOf,
  tangentDisc,
  times,
} from './space';

const EPSILON = 1e-5;
const draw = normal(7);
const vectors = Array.from({ length: 20 }, () => [draw(), draw(), draw()]);
const gamma = [1.3, 0.8, 0.5];
const beta = [0.4, 0.1, -0.6];
const close = (a: readonly number[], b: readonly number[], within = 1e-12) =>
  expect(length(add(a, times(b, -1)))).toBeLessThan(within);

beforeAll(async () => setKernels(await loadKernels()));

describe.each(vectors)('from x = %d, %d, %d', (...x) => {
  test('LayerNorm takes the part along 1 away, then leaves |x̂|² = 3·σ₀²/(σ₀² + ε)', () => {
    const m = movesOf('layer', x, gamma, beta);
    close(add(m.centred, times(ONES, dot(x, ONES) / 3)), x);
    expect(sum(m.centred)).toBeCloseTo(0, 12);
    expect(sum(m.normalized)).toBeCloseTo(0, 12);
    const variance = dot(m.centred, m.centred) / 3;
    expect(m.deviation ** 2).toBeCloseTo(variance + EPSILON, 12);
    expect(dot(m.normalized, m.normalized)).toBeCloseTo((3 * variance) / (variance + EPSILON), 10);
    close(cross(m.centred, m.normalized), [0, 0, 0]);
    close(m.output, add(times(m.normalized, gamma), beta));
  });

  test('RMSNorm takes nothing away, and leaves |x̂|² = 3·σ₀²/(σ₀² + ε)', () => {
    const m = movesOf('rms', x, gamma, beta);
    expect(m.mean).toBe(0);
    expect(m.centred).toEqual(x);
    const square = dot(x, x) / 3;
    expect(dot(m.normalized, m.normalized)).toBeCloseTo((3 * square) / (square + EPSILON), 10);
    close(cross(x, m.normalized), [0, 0, 0]);
  });

  test('backward leaves what is tangent: to the circle, and to the sphere', () => {
    const g = [0.7, -1.1, 0.4];
    const layer = gradientOf('layer', x, 1, g);
    expect(sum(layer.dx)).toBeCloseTo(0, 12);
    const off = (d: typeof layer) =>
      Math.abs(dot(d.dx, d.normalized)) / (length(d.dx) * length(d.normalized));
    // The remainder's part along x̂ is ε/σ² times that of g.
    const bound = (d: typeof layer) =>
      (Math.abs(dot(d.g, d.normalized)) * EPSILON) / d.deviation ** 3 / length(d.dx) / RADIUS;
    expect(off(layer)).toBeLessThan(1.01 * bound(layer) + 1e-12);
    const tangent = cross(ONES, layer.normalized);
    expect(length(cross(layer.dx, tangent)) / length(layer.dx)).toBeLessThan(
      1e-6 + 10 * off(layer),
    );
    const rms = gradientOf('rms', x, 1, g);
    expect(off(rms)).toBeLessThan(1.01 * bound(rms) + 1e-12);
  });
});

test('x at a distance from the line, or from 0, in the direction in which it was', () => {
  const x = [1, -0.6, 0.5];
  const beside = near('layer', x, 0.01);
  const off = beside.map((v) => v - sum(beside) / 3);
  expect(length(off)).toBeCloseTo(0.01, 12);
  expect(sum(beside)).toBeCloseTo(sum(x), 12);
  close(
    cross(
      off,
      x.map((v) => v - sum(x) / 3),
    ),
    [0, 0, 0],
  );
  expect(length(near('rms', x, 0.01))).toBeCloseTo(0.01, 12);
  close(near('layer', [1, 1, 1], 0), [1, 1, 1]);
  expect(length(near('rms', [0, 0, 0], 0.5))).toBeCloseTo(0.5, 12);
});

describe.each([
  { turn: -10, tilt: 12 },
  { turn: 45, tilt: 35 },
  { turn: 170, tilt: -80 },
])('the view $turn, $tilt', (view) => {
  const space = spaceOf(view, 400, 300, 3);

  test('is an orthographic projection: what lies in the picture keeps its length', () => {
    const { right, up, towards } = space;
    for (const v of [right, up, towards]) expect(length(v)).toBeCloseTo(1, 12);
    close(cross(right, up), towards);
    expect(space.place([0, 0, 0])).toEqual([200, 150]);
    close(space.place(times(right, 2)), [300, 150], 1e-9);
    close(space.place(up), [200, 100], 1e-9);
    close(space.place(towards), [200, 150], 1e-9);
    close(space.lift(100, -50), add(times(right, 2), up), 1e-9);
    expect(space.depth(towards)).toBeCloseTo(1, 12);
  });

  test('the circle and the ellipse are where LayerNorm puts what it normalizes', () => {
    const affine = { gamma, beta };
    const [circle, ellipse] = [layerCurve(space), layerCurve(space, affine)];
    const nearest = (curve: typeof circle, v: readonly number[]) =>
      Math.min(...curve.map(({ at }) => length(add(at, times(v, -1)))));
    for (const x of vectors) {
      const m = movesOf('layer', x, gamma, beta);
      expect(nearest(circle, m.normalized)).toBeLessThan(0.06); // half the points’ distance
      expect(nearest(ellipse, m.output)).toBeLessThan(0.08);
    }
  });

  test('the outline lies around all of the ellipsoid, and touches it', () => {
    const affine = { gamma, beta };
    const inPicture = (v: readonly number[]) => space.place(v);
    const edge = outline(space, affine);
    for (const at of edge) {
      const onSphere = at.map((v, i) => (v - beta[i]) / gamma[i]);
      expect(length(onSphere)).toBeCloseTo(RADIUS, 9);
    }
    for (let i = 0; i < 32; ++i) {
      const direction = [Math.cos(i / 5), Math.sin(i / 5)];
      const farthest = (points: (readonly number[])[]) =>
        Math.max(...points.map((v) => dot(inPicture(v), direction)));
      const inside = vectors.map((x) => movesOf('rms', x, gamma, beta).output);
      expect(farthest(inside)).toBeLessThan(farthest(edge) + 0.5);
    }
    for (const curve of meridians(space, affine)) {
      for (const { at } of curve) {
        const onSphere = at.map((v, i) => (v - beta[i]) / gamma[i]);
        expect(length(onSphere)).toBeCloseTo(RADIUS, 9);
      }
    }
  });
});

test('the tangent is what can be reached without leaving circle or sphere', () => {
  const [layer, rms] = (['layer', 'rms'] as const).map(
    (kind) => movesOf(kind, [1, -0.6, 0.5], gamma, beta).normalized,
  );
  for (const end of tangentDisc('layer', layer)) {
    const way = add(end, times(layer, -1));
    expect([dot(way, layer), sum(way)].every((v) => Math.abs(v) < 1e-12)).toBe(true);
  }
  for (const end of tangentDisc('rms', rms)) {
    expect(dot(add(end, times(rms, -1)), rms)).toBeCloseTo(0, 12);
  }
});
