// Checks streams of several lanes in Node against algebra, central differences and the native lab.

import { beforeAll, describe, expect, test } from 'vitest';
import { draw, native, withFolder } from '../../packages/addnorm/test/native';
import { ROW_NAMES } from '../chapters/lanes/rows';
import { loadKernels } from './current';
import type { LaneNumbers, Lanes, LaneStack, Mixing } from './lanes';

let lanes: Lanes;
beforeAll(async () => {
  lanes = (await loadKernels()).lanes;
});

const row = (name: string) => lanes.rows().find((r) => r.name === name)!;
const of = (name: string, more = {}): LaneStack => ({ row: row(name), layers: 3, ...more });
const mixing = (name: string) => lanes.mixing(of(name));
const own = (read: number[], carry: number[], write: number[]): LaneNumbers => ({
  lanes: read.length,
  lanesAfter: read.length,
  read,
  carry,
  write,
});

/** Compares the rows of the sublayers up to the diagonal. */
function expectMixing(mixing: Mixing, entry: (reader: number, source: number) => number) {
  mixing
    .slice(0, -1)
    .forEach((values, l) =>
      values.forEach((v, j) => expect(v).toBeCloseTo(j <= l ? entry(l, j) : 0, 12)),
    );
}

test('every row that the chapter offers is in the table', () => {
  for (const name of ROW_NAMES.filter((n) => n !== 'own')) expect(row(name)?.name).toBe(name);
  expect(row('pre')).toMatchObject({ before: true, after: false, grows: false, most: 1 });
  expect(row('mhc')).toMatchObject({ least: 2, usual: 4, most: 16 });
  expect(row('residual-dual')).toMatchObject({ after: true, lastLane: false });
  expect(row('highway')).toBe(undefined); // the theory does not cover gates
});

describe('the depth-mixing matrix', () => {
  test('of pre-norm is 1 up to the diagonal, and so is that of one lane of one’s own', () => {
    expectMixing(mixing('pre'), () => 1);
    expectMixing(lanes.mixing({ layers: 3, own: own([1], [1], [1]) }), () => 1);
    expect(lanes.numbers(of('pre'))[2]).toEqual({ lanes: 1, lanesAfter: 1, ...own1 });
  });
  const own1 = { read: [1], carry: [1], write: [1] };

  test('of post-norm loses half of its power at each sublayer', () => {
    expectMixing(mixing('post'), (l, j) => 2 ** (-(l - Math.max(0, j - 1)) / 2));
  });

  test('of Attention Residuals is a mean', () => {
    expectMixing(mixing('attention-residuals'), (l) => 1 / (l + 1));
    expect(lanes.carried(of('attention-residuals'))).toEqual({ left: [], gain: [] });
  });

  test('of one’s own numbers is a·A⋯A·b', () => {
    const [a, A, b] = [
      [0.5, -1],
      [0.9, 0.2, -0.1, 1.1],
      [1, 0.3],
    ];
    const times = ([x, y]: number[]) => [A[0] * x + A[1] * y, A[2] * x + A[3] * y];
    const entry = (l: number, j: number) => {
      let v = j === 0 ? [1, 1] : b;
      for (let k = j; k < l; k++) v = times(v);
      return a[0] * v[0] + a[1] * v[1];
    };
    expectMixing(lanes.mixing({ layers: 3, own: own(a, A, b) }), entry);
  });
});

test('one step is a·X and A·X + b ⊗ f, also where the stream grows', () => {
  const numbers = { ...own([0.5, -1], [1, 2, 3, 4, 5, 6], [7, 8, 9]), lanes: 2, lanesAfter: 3 };
  const { z, next } = lanes.step(numbers, Float64Array.of(1, 10, 2, 20), Float64Array.of(0.1, -1));
  expect([...z]).toEqual([-1.5, -15]);
  const expected = [5 + 0.7, 50 - 7, 11 + 0.8, 110 - 8, 17 + 0.9, 170 - 9];
  next.forEach((v, i) => expect(v).toBeCloseTo(expected[i], 12));
});

test('a doubly stochastic carry keeps the mean, and its product does not amplify', () => {
  const stack = of('mhc', { moved: true, layers: 24, lanes: 3 });
  const [sublayers, { left, gain }] = [lanes.numbers(stack), lanes.carried(stack)];
  const x = draw(6, 3);
  const { next } = lanes.step({ ...sublayers[5], write: [0, 0, 0] }, x, Float64Array.of(1, 1));
  for (const k of [0, 1])
    expect(next[k] + next[k + 2] + next[k + 4]).toBeCloseTo(x[k] + x[k + 2] + x[k + 4], 9);
  gain.forEach((v) => expect(v).toBeCloseTo(1, 9));
  expect(left[0]).toBeGreaterThan(0.5);
  expect(left.at(-1)).toBeLessThan(0.01);
  const identity = lanes.carried(of('identity-hc', { moved: true }));
  expect(identity.left.every((v) => v === 1)).toBe(true);
});

test.each(['hyper', 'mhc', 'identity-hc', 'wide', 'mhc-lite'])(
  'moved numbers of %s are those of the lab',
  (name) => {
    for (const [figure, values] of [
      ['lanes', 'left'],
      ['composite-gain', 'gain'],
    ] as const) {
      const flags = ['--placement', name, '--layers', 5, '--seeds', 1, '--seed', 7, '--json'];
      const { panels } = withFolder((path) =>
        JSON.parse(native('lab', figure, ...flags, '--out', path('out'))),
      );
      const { y } = panels.at(-1).predicted[0];
      const found = lanes.carried(of(name, { moved: true, layers: 5, seed: 7 }))[values];
      expect(y).toHaveLength(found.length);
      found.forEach((v, l) => expect(v! / y[l]).toBeCloseTo(1, 5));
    }
  },
);

describe('the gradient of A and of its logits', () => {
  const [x, dNext, logits] = [draw(6, 11), draw(6, 12), draw(9, 13).map((v) => Math.tanh(v))];
  const loss = (at: Float64Array) => {
    const { carry } = lanes.gradient(at, x, dNext);
    const { next } = lanes.step(own([0, 0, 0], [...carry], [0, 0, 0]), x, Float64Array.of(0, 0));
    return next.reduce((sum, v, i) => sum + v * dNext[i], 0);
  };

  test('is what central differences give', () => {
    const { ofLogits } = lanes.gradient(logits, x, dNext);
    const most = Math.max(...ofLogits.map(Math.abs));
    logits.forEach((_, k) => {
      const at = (step: number) => loss(logits.map((v, i) => v + (i === k ? step : 0)));
      const difference = (at(1e-5) - at(-1e-5)) / 2e-5;
      expect(Math.abs(difference - ofLogits[k])).toBeLessThan(1e-6 * most);
    });
  });

  test('cannot tell equal lanes apart, and then is nothing', () => {
    const equal = Float64Array.of(1, -2, 1, -2, 1, -2);
    const { ofCarry, ofLogits } = lanes.gradient(logits, equal, dNext);
    for (const i of [0, 3, 6]) {
      expect(ofCarry[i]).not.toBe(0);
      expect([ofCarry[i + 1], ofCarry[i + 2]]).toEqual([ofCarry[i], ofCarry[i]]);
    }
    const most = Math.max(...ofCarry.map(Math.abs));
    ofLogits.forEach((v) => expect(Math.abs(v) / most).toBeLessThan(1e-4));
  });
});

test('numbers beyond all bounds are null, and what cannot be is an error in the library’s words', () => {
  const nothing = lanes.mixing({ layers: 2, own: own([0, 0], [0, 0, 0, 0], [0, 0]) });
  expect(nothing.at(-1)).toContain(null); // the final norm of a stream of 0
  expect(() => lanes.mixing(of('mhc', { lanes: 99 }))).toThrow(/lanes/);
  expect(() => lanes.mixing({ row: row('pre'), layers: 0 })).toThrow('cannot have 0 layers');
  expect(lanes.numbers(of('mhc'))).toHaveLength(6);
});
