import { KINDS } from 'addnorm';
import { beforeAll, describe, expect, test } from 'vitest';
import { loadKernels, setKernels } from '../../kernels/current';
import { type Batch, behaviourOf, drawBatch, featuresOf, normalize, setOf } from './sets';
import { aloneWords, cellWords, neighbourWords, setWords, twinWords } from './words';

beforeAll(async () => setKernels(await loadKernels()));

const batches: Batch[] = [
  { samples: 4, channels: 6, positions: 1, groups: 2 },
  { samples: 3, channels: 6, positions: 4, groups: 3 },
  { samples: 1, channels: 2, positions: 2, groups: 2 },
];

describe.each(KINDS)('%s', (kind) => {
  test.each(batches)('%o: each set’s mean is that of its cells', (batch) => {
    const x = drawBatch(batch, 5, 2);
    const { statistics } = normalize(kind, batch, x);
    const cells: number[][] = Array.from(statistics.mean, () => []);
    x.forEach((v, i) => {
      const [row, column] = [Math.floor(i / featuresOf(batch)), i % featuresOf(batch)];
      cells[setOf(kind, batch, { row, column })].push(v);
    });
    cells.forEach((values, set) => {
      expect(values.length).toBe(x.length / statistics.mean.length);
      const mean = values.reduce((sum, v) => sum + v, 0) / values.length;
      const centre = kind === 'rms' ? 0 : mean;
      const variance = values.reduce((sum, v) => sum + (v - centre) ** 2, 0) / values.length;
      expect(statistics.mean[set]).toBeCloseTo(centre, 12);
      expect(statistics.deviation[set]).toBeCloseTo(Math.sqrt(variance + 1e-5), 12);
    });
  });
});

test('other rows change, the first one and its size do not', () => {
  const batch = batches[0];
  const [a, b] = [drawBatch(batch, 1, 0), drawBatch(batch, 1, 1)];
  expect(a.subarray(0, 6)).toEqual(b.subarray(0, 6));
  expect(a.subarray(6)).not.toEqual(b.subarray(6));
  expect(drawBatch({ ...batch, samples: 2 }, 1, 0)).toEqual(a.subarray(0, 12));
});

test('only BatchNorm depends on the neighbours', () => {
  for (const kind of KINDS) {
    const behaviour = behaviourOf(kind, batches[1], 0, 0);
    if (kind === 'batch') expect(behaviour.neighbours).toBeGreaterThan(0.1);
    else expect(behaviour.neighbours).toBe(0);
    expect(neighbourWords(behaviour)).toContain(kind === 'batch' ? ': it depends' : 'does not');
  }
});

test('a batch of one: BatchNorm gives 0, or is InstanceNorm', () => {
  const one = { samples: 1, channels: 4, positions: 1, groups: 2 };
  const output = (batch: Batch) => normalize('batch', batch, drawBatch(batch, 0, 0)).y;
  const alone = behaviourOf('batch', one, 0, 0);
  expect(alone).toMatchObject({ neighbours: null, aloneLargest: 0, setSize: 1 });
  expect(setWords('batch', alone, output(one))).toContain('Every output is 0');

  const longer = { ...one, positions: 4 };
  const behaviour = behaviourOf('batch', longer, 0, 0);
  expect(aloneWords('batch', behaviour)).toBe('is InstanceNorm');
  const twins = twinWords('batch', longer, drawBatch(longer, 0, 0), output(longer));
  expect(twins).toBe('Norms with the same output here: InstanceNorm.');
  expect(aloneWords('layer', behaviourOf('layer', longer, 0, 0))).toBe('works: the same output');
});

test('says the arithmetic of a cell', () => {
  const batch = { samples: 2, channels: 2, positions: 1, groups: 1 };
  const x = Float64Array.from([1, 3, -5, 5]);
  const words = (kind: 'layer' | 'rms', row: number) =>
    cellWords(kind, batch, x, normalize(kind, batch, x), { row, column: 0 });
  expect(words('layer', 0)).toBe(
    'Sample 1, channel 1: 1. It shares mean 2 and deviation 1 with 1 other cell. (1 − 2) ÷ 1 = −1.',
  );
  expect(words('rms', 1)).toContain('root mean square 5 with 1 other cell. −5 ÷ 5 = −1.');
});
