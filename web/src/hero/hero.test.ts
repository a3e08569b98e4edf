// Checks that the hero's text and pictures match its four stacks.

import { beforeAll, expect, test } from 'vitest';
import type { Kernels, Measurement } from '../kernels/kernels';
import { loadKernels } from '../kernels/current';
import { byLayer } from './by-layer';
import { outcome } from './outcome';
import { between, type Colour, pictureOf } from './picture';
import { SENTENCE, stackOf, textOf } from './stack';

let kernels: Kernels;
beforeAll(async () => {
  kernels = await loadKernels();
});

function measure(add: boolean, norm: boolean) {
  const { arrangement, options } = stackOf({ add, norm });
  return kernels.measureSentence(arrangement, options, textOf(SENTENCE));
}

test.each([
  [true, true, 'It gets through.'],
  [false, true, 'It collapses.'],
  [true, false, 'It explodes.'],
  [false, false, 'It fades.'],
])('with Add %s and Norm %s: %s', (add, norm, verdict) => {
  expect(outcome(byLayer(measure(add, norm))).verdict).toBe(verdict);
});

test('the stacks are rows of the table of placements, or those without one of their parts', () => {
  const rows = Object.fromEntries(kernels.placements().map((p) => [p.name, p]));
  const read = (row: (typeof rows)[string]) =>
    kernels.measureSentence(row, stackOf({ add: true, norm: true }).options, textOf(SENTENCE));
  expect(measure(true, true)).toEqual(read(rows.pre));
  expect(measure(true, false)).toEqual(read(rows.none));
  expect(measure(false, false)).toEqual(read(rows.plain));
  expect(measure(false, true)).toEqual(read({ ...rows.plain, before: true }));
});

const measurement = (stream: number, gradient: number, cosine: number): Measurement => ({
  loss: 1,
  stream: [2, 2 * stream],
  gradient: [3 * gradient, 3],
  tokenCosine: [0, cosine],
});

test('sentences say what the numbers say', () => {
  const words = (...values: [number, number, number]) => {
    const { verdict, reason } = outcome(measurement(...values));
    return `${verdict} ${reason}`;
  };
  expect(words(1.5, 2, 0.5)).toBe(
    'It gets through. The signal arrives with 1.5 times its initial size, the gradient arrives with 2 ' +
      'times its initial size, and the tokens can still be told apart.',
  );
  expect(words(1e-3, 1e-5, 0.995)).toBe(
    'It fades. One 1,000th of the signal is left, one 100,000th of the gradient is left, and all ' +
      'tokens end as nearly the same vector.',
  );
  expect(words(1, 2e4, 0.98)).toContain(
    'the gradient grows 20,000-fold, and the tokens can still be told apart.',
  );
  expect(words(NaN, NaN, NaN)).toBe(
    'It explodes. The signal outgrows float32, there is no gradient, and no token has a direction.',
  );
  expect(words(0, 0, NaN)).toContain(
    'Nothing of the signal is left, nothing of the gradient is left',
  );
});

test('each byte of another sentence is a token', () => {
  const sentence = 'Wohin? Übers Öl';
  const { arrangement, options } = stackOf({ add: true, norm: true }, sentence);
  const measured = kernels.measureSentence(arrangement, options, textOf(sentence));
  expect(measured.tokens).toBe(sentence.length + 2); // Ü and Ö have two bytes
  expect(pictureOf(measured)).toHaveLength(measured.tokens);
});

const spread = (colours: Colour[]) => {
  const channel = (i: number) => colours.map((colour) => colour[i]);
  return Math.max(...[0, 1, 2].map((i) => Math.max(...channel(i)) - Math.min(...channel(i))));
};

test('tokens of one direction have one colour and draw together; others keep their own', () => {
  const [carries, collapses] = [true, false].map((add) => pictureOf(measure(add, true)));
  expect(carries).toHaveLength(SENTENCE.length);
  const at = (place: number) => (lanes: typeof carries) => lanes.map((lane) => lane.at(place)!);
  const width = (points: { at: number }[]) => points.at(-1)!.at - points[0].at;
  for (const picture of [carries, collapses]) {
    expect(spread(at(0)(picture).map(({ colour }) => colour))).toBeGreaterThan(0.7);
    expect(width(at(0)(picture))).toBeGreaterThan(0.9);
  }
  expect(spread(at(-1)(carries).map(({ colour }) => colour))).toBeGreaterThan(0.7);
  expect(spread(at(-1)(collapses).map(({ colour }) => colour))).toBeLessThan(0.02);
  expect(width(at(-1)(collapses))).toBeLessThan(0.5);
});

test('one picture turns into another, layer by layer', () => {
  const [from, to] = [true, false].map((add) => pictureOf(measure(add, true)));
  const half = (place: number) => (place < 12 ? 1 : 0);
  const mixed = between(from, to, { stream: half, gradient: (place) => 1 - half(place) });
  expect(mixed[3][5].stream).toBe(to[3][5].stream);
  expect(mixed[3][5].gradient).toBe(from[3][5].gradient);
  expect(mixed[3][20].colour).toEqual(from[3][20].colour);
});

test('what float32 cannot hold has no size and no direction, and breaks nothing', () => {
  const measured = measure(true, true);
  measured.stream.fill(NaN, 32);
  measured.cosine.fill(NaN, 32 * 32);
  const [lane] = pictureOf(measured);
  expect(lane[1].stream).toBe(Infinity);
  expect(spread([lane[0].colour, lane[1].colour])).toBeLessThan(1e-9);
});
