// Checks the points for and against each placement.

import { expect, test } from 'vitest';
import { sidesOf } from './balance';

const stack = (
  stream: number[],
  gradient: number[],
  turn: number[],
  tokenCosine: number[] = [],
) => ({
  loss: 1,
  stream,
  gradient,
  tokenCosine,
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

test('nearly equal tokens count against post-norm', () => {
  const words = (post: number, pre: number) =>
    sidesOf(stack([1, 1], [1, 1], [1], [post]), stack([1, 1], [1, 1], [1], [pre])).map(
      ({ points }) => points.map((point) => point.join(' ')).join('\n'),
    );
  const [post, pre] = words(0.9997, 0.79);
  expect(post).toContain('− All tokens carry nearly the same vector after the last layer');
  expect(post).toContain('mean cosine is 0.9997');
  expect(pre).toContain('+ Its tokens can still be told apart: their mean cosine is 0.79.');
  expect(words(0.5, 0.3).join()).not.toContain('cosine');
});
