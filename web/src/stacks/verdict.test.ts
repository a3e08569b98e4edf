import { readFileSync, writeFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { native, withFolder } from '../../packages/addnorm/test/native';
import { curve, endsOf, fateOf, verdict } from './verdict';

const measurement = (stream: number[], gradient: number[], tokenCosine = [0, 0.9]) => ({
  loss: 1,
  stream,
  gradient,
  tokenCosine,
});

interface Finding {
  verdict: string;
  stream_rms: number[][];
  gradient_rms: number[][];
  end_ratios: { xavier: { stream: number; gradient: number } };
}

/** The verdicts of `addnorm study` on two stacks without a norm, which depend on their depth. */
function study(layers: number, seed: number): Finding[] {
  return withFolder((path) => {
    writeFileSync(path('text'), 'To be, or not to be. '.repeat(40));
    const size = ['--layers', layers, '--width', 8, '--heads', 2, '--context', 8, '--batch', 1];
    const runs = ['--steps', 2, '--seeds', 1, '--seed', seed, '--init', 'xavier'];
    const stacks = ['--text', path('text'), '--placement', 'none,plain', '--out', path('out')];
    native('study', ...stacks, ...size, ...runs);
    return JSON.parse(readFileSync(path('out/results.json'), 'utf8')).placements;
  });
}

test('ends and fates are those of `addnorm study`', () => {
  const ratios: Record<string, number[]> = { vanishes: [], between: [], explodes: [] };
  const findings = [5, 6, 11, 13].flatMap((layers) => [0, 1, 2].flatMap((s) => study(layers, s)));
  for (const { verdict, stream_rms, gradient_rms, end_ratios } of findings) {
    const ends = endsOf(measurement(stream_rms[0], gradient_rms[0]));
    expect(ends.stream).toBeCloseTo(end_ratios.xavier.stream, 9);
    expect(ends.gradient).toBeCloseTo(end_ratios.xavier.gradient, 9);
    const shrinks = verdict.includes('stream shrinks to');
    const grows = /stream grows \S+-fold/.test(verdict);
    const fate = shrinks ? 'vanishes' : grows ? 'explodes' : 'between';
    const own = fateOf(ends.stream);
    expect(own === 'vanishes' || own === 'explodes' ? own : 'between').toBe(fate);
    ratios[fate].push(ends.stream);
  }
  // Close enough to both bounds to notice when these change.
  expect(Math.min(...ratios.between) / Math.max(...ratios.vanishes)).toBeLessThan(2);
  expect(Math.min(...ratios.explodes) / Math.max(...ratios.between)).toBeLessThan(2);
});

test('each word has its range; what underflows vanishes, what overflows explodes or is no number', () => {
  const of = (...ratios: number[]) => [...new Set(ratios.map(fateOf))].join();
  expect(of(0, 1e-30, 0.0099)).toBe('vanishes');
  expect(of(0.01, 0.043, 0.099)).toBe('shrinks');
  expect(of(0.1, 1, 10)).toBe('arrives');
  expect(of(10.1, 100)).toBe('grows');
  expect(of(101, Infinity)).toBe('explodes');
  expect(of(NaN)).toBe('overflows');
});

test('the ends are those of the stream, and the gradients of the first and the last layer', () => {
  expect(endsOf(measurement([2, 3, 4], [6, 2, 1]))).toEqual({ stream: 2, gradient: 3 });
  expect(endsOf(measurement([1, 0, 0], [0, 0, 1]))).toEqual({ stream: 0, gradient: 0 });
});

test('sentences say what the numbers say', () => {
  expect(verdict(measurement([2, 2, 3], [4, 2, 1]))).toBe(
    'The stream ends with 1.5 times its initial size. ' +
      'The gradient of layer 0 is 2 times layer 1’s: it arrives.',
  );
  expect(verdict(measurement([1, 1, 1e-3, 1e-5], [1e-8, 1e-6, 1e-4, 1]))).toBe(
    'The stream vanishes: 1.0e−5 of its size is left. The gradient of layer 0 is 1.0e−4 of ' +
      'layer 2’s: it vanishes (each layer multiplies it by 0.01 on average).',
  );
  expect(verdict(measurement([1, 1e-30, 0], [0, 1e-30, 1]))).toBe(
    'The stream vanishes: it becomes too small for float32. ' +
      'The gradient of layer 0 is 0: on its way it became too small for float32.',
  );
  expect(verdict(measurement([1, 1e30, NaN, NaN], [NaN, NaN, NaN, NaN]))).toBe(
    'The stream explodes: the output of layer 1 is too large for float32. ' +
      'So there is no gradient: it is not a number.',
  );
});

test('a gradient that has lost most of itself does not arrive', () => {
  const words = (ratio: number) => verdict(measurement([1, 1, 1], [ratio, 1, 1]));
  expect(words(1 / 70)).toContain('0.014 times layer 1’s: it shrinks on the way.');
  expect(words(1 / 9)).toContain('it arrives');
  expect(words(9)).toContain('it arrives');
  expect(words(70)).toContain('70 times layer 1’s: it grows on the way.');
  const stream = (ratio: number) => verdict(measurement([1, 1, ratio], [1, 1, 1]));
  expect(stream(0.05)).toContain('The stream shrinks: 0.05 of its size is left.');
  expect(stream(50)).toContain('The stream grows 50-fold.');
});

test('a stream that keeps its size is no signal where all tokens are alike', () => {
  const words = (cosine: number) => verdict(measurement([1, 1, 1], [1, 1, 1], [0, cosine]));
  const of = (shown: string) =>
    `, and all tokens then carry nearly the same vector (mean cosine ${shown}).`;
  expect(words(0.98)).toMatch(/^The stream keeps its size\. The/);
  expect(words(NaN)).not.toContain('the same vector');
  expect(words(0.9951)).toContain(of('0.9951'));
  for (const same of [1 - 2 ** -40, 1]) {
    expect(words(same)).toContain('all tokens then carry the same vector, to within rounding.');
  }
});

test('says what is too large for float32', () => {
  expect(verdict(measurement([1, 1e30, Infinity], [Infinity, 1, 1]))).toBe(
    'The stream explodes: the output of layer 1 is too large for float32. ' +
      'The gradient of layer 0 explodes: it is too large for float32.',
  );
});

test('a curve leaves out what has no logarithm', () => {
  expect(curve([1, 0, NaN, 4])).toEqual([1, null, null, 4]);
  expect(curve([1, 2, 4], -1)).toEqual([0.25, 0.5, 1]);
  expect(curve([1, 2, 0], -1)).toEqual([null, null, null]);
});
