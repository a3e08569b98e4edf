import { expect, test } from 'vitest';
import { curve, endsOf, fateOf, summary, verdict } from './verdict';

const measurement = (stream: number[], gradient: number[]) => ({
  loss: 1,
  stream,
  gradient,
  tokenCosine: [],
});

test('fates have the bounds of `addnorm study`', () => {
  expect([0, 0.0099, 0.01, 100, 101, NaN, Infinity].map(fateOf)).toEqual([
    'vanishes',
    'vanishes',
    'keeps',
    'keeps',
    'explodes',
    'overflows',
    'overflows',
  ]);
});

test('the ends are those of the stream, and the gradients of the first and the last layer', () => {
  expect(endsOf(measurement([2, 3, 4], [6, 2, 1]))).toEqual({ signal: 2, gradient: 3 });
  expect(endsOf(measurement([1, 0, 0], [0, 0, 1]))).toEqual({ signal: 0, gradient: 0 });
});

test('sentences say what the numbers say', () => {
  expect(verdict(measurement([2, 2, 3], [4, 2, 1]))).toBe(
    'The signal ends at 1.5 times its size. ' +
      'The gradient of layer 0 is 2 times layer 1’s: it arrives.',
  );
  expect(verdict(measurement([1, 1, 1e-3, 1e-5], [1e-8, 1e-6, 1e-4, 1]))).toBe(
    'The signal vanishes: 1.0e−5 of its size is left. The gradient of layer 0 is 1.0e−4 of ' +
      'layer 2’s: it vanishes (each layer multiplies it by 0.01 on average).',
  );
  expect(verdict(measurement([1, 1e-30, 0], [0, 1e-30, 1]))).toBe(
    'The signal vanishes: what is left is too small for float32. ' +
      'The gradient of layer 0 is 0: on its way it became too small for float32.',
  );
  expect(verdict(measurement([1, 1e30, NaN, NaN], [NaN, NaN, NaN, NaN]))).toBe(
    'The signal explodes: layer 1 leaves more than float32 can hold. ' +
      'So there is no gradient: it is not a number.',
  );
});

test('a curve leaves out what has no logarithm', () => {
  expect(curve([1, 0, NaN, 4])).toEqual([1, null, null, 4]);
  expect(curve([1, 2, 4], -1)).toEqual([0.25, 0.5, 1]);
  expect(curve([1, 2, 0], -1)).toEqual([null, null, null]);
});

test('the summary names the stacks that keep their gradient', () => {
  const [good, bad] = [
    [1, 2, 3],
    [1, 1e-3, 1],
  ];
  expect(summary([bad, bad, bad, good])).toContain('“Both” keeps');
  expect(summary([bad, good, bad, good])).toContain('“Norm only” and “Both” keep');
  expect(summary([bad, bad, bad, bad])).toContain('no stack');
  expect(summary([good, good, good, good])).toContain('all four');
});
