// The angles by which layers turn the stream, by properties that hold whatever the weights are.

import { beforeAll, expect, test } from 'vitest';
import { loadKernels } from './current';
import type { Kernels } from './kernels';
import { turns, type TurnsOptions } from './turns';

let kernels: Kernels;
beforeAll(async () => {
  kernels = await loadKernels();
});

const options: TurnsOptions = {
  placement: 'pre',
  layers: 36,
  width: 32,
  heads: 2,
  tokens: 16,
  initialization: 'xavier',
  norm: 'layer',
  seed: 3,
};
const run = (changes: Partial<TurnsOptions>) => turns(kernels.module, { ...options, ...changes });
const mean = (values: number[]) => values.reduce((sum, v) => sum + v, 0) / values.length;

test('one angle for each layer, the same each time; the first layers are those of a lower stack', () => {
  const found = run({ layers: 6 });
  expect(found).toHaveLength(6);
  expect(found.every((v) => v > 0 && v < 180)).toBe(true);
  expect(run({ layers: 6 })).toEqual(found);
  expect(run({ layers: 3 })).toEqual(found.slice(0, 3));
});

test.each([3, 4, 5, 6])(
  'pre-norm turns the stream less and less, post-norm does not: seed %d',
  (seed) => {
    const [pre, post] = (['pre', 'post'] as const).map((placement) => run({ placement, seed }));
    const left = (angles: number[]) => mean(angles.slice(-6)) / mean(angles.slice(0, 6));
    expect(left(pre)).toBeLessThan(0.6);
    expect(left(post)).toBeGreaterThan(0.8);
  },
);
