// Checks the points for and against each placement.

import { expect, test } from 'vitest';
import { sidesOf } from './balance';

const stack = (stream: number[], gradient: number[], turn: number[]) => ({
  loss: 1,
  stream,
  gradient,
  tokenCosine: [],
  turn,
});

test('each point has the numbers of its own stack', () => {
  const post = stack([2, 2, 2], [0.5, 1, 9], [30, 29]);
  const pre = stack([1, 2, 3], [1.5, 1, 9], [40, 10]);
  const [a, b] = sidesOf(post, pre).map(({ points }) => points.map((point) => point.join(' ')));
  expect(a[0]).toBe('+ The norms keep the stream at one size: its RMS is 2 after the last layer.');
  expect(a[1]).toContain('by 29°, the first by 30°');
  expect(a[2]).toBe('− The gradient passes through 4 norms: layer 0 gets 0.5× the last layer’s.');
  expect(b[0]).toContain('layer 0 gets 1.5× the last layer’s');
  expect(b[2]).toBe('− The stream grows: its RMS goes from 1 to 3.');
  expect(b[3]).toContain('by 10°, the first by 40°');
});
