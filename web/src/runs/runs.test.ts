// Checks the page of runs: reading growing files, and making curves from them.

import { describe, expect, test } from 'vitest';
import {
  addMetrics,
  align,
  largest,
  noMetrics,
  type Point,
  positive,
  smooth,
  stepsPerPoint,
  thin,
} from './metrics';
import { addProfile, noProfile, placesAt } from './profile';
import { differing } from './settings';
import { state } from './state';
import { Tail } from './tail';
import { mean } from '../ui/vectors';

describe('a file that grows', () => {
  /** The server's response. */
  const rest = (tail: Tail, file: string) => new TextEncoder().encode(file).slice(tail.from);
  const take = (tail: Tail, file: string) => tail.take(rest(tail, file));

  test('gives each line once, and no line before it ends', () => {
    const tail = new Tail();
    expect(take(tail, '')).toEqual([]);
    expect(take(tail, 'one')).toEqual([]);
    expect(take(tail, 'one\ntwö\nthr')).toEqual(['one', 'twö']);
    expect(tail.from).toBe(4); // the start of the last complete line
    expect(take(tail, 'one\ntwö\nthr')).toEqual([]);
    expect(take(tail, 'one\ntwö\nthree\n')).toEqual(['three']);
  });

  test.each([
    ['shorter', 'one\n'],
    ['gone', ''],
    ['shorter once, but longer by now', 'one\nnew two\nnew three\n'],
    ['as long, with another end', 'one\ntwo\nthree!'],
  ])('is read again from its start when it is %s', (_, file) => {
    const tail = new Tail();
    take(tail, 'one\ntwo\nthree\n');
    expect(take(tail, file)).toBe(undefined);
    expect(tail.from).toBe(0);
    const whole = file.slice(0, file.lastIndexOf('\n') + 1);
    expect(take(tail, file)).toEqual(whole.split('\n').slice(0, -1));
  });
});

test('metrics are steps and validations; what is no line of them is passed over', () => {
  const metrics = noMetrics();
  const step = { step: 1, loss: null, gradient_norm: 0.5, learning_rate: 0.1 };
  addMetrics(metrics, [
    JSON.stringify(step),
    '{"step":1,"validation_loss":2.5}',
    '{"step":2,"stopped":"the loss is not finite"}',
    '{"step":3,"lo',
    'null',
    '{"step":"4","loss":1}',
    '{"step":[5],"loss":1}',
    '{"step":6,"loss":{"a":1},"learning_rate":0.1}',
    '{"step":7,"validation_loss":"1"}',
    `{"step":8,"loss":${'['.repeat(100_000)}${']'.repeat(100_000)}}`,
    '',
  ]);
  expect(metrics).toEqual({ steps: [step], validation: [[1, 2.5]] });
});

test('smoothing is a mean over what came before, and a gap stays a gap', () => {
  const points: Point[] = [
    [1, 4],
    [2, null],
    [3, 1],
  ];
  expect(smooth(points, 0)).toEqual(points);
  expect(smooth(points, 0.5)).toEqual([
    [1, 4],
    [2, null],
    [3, (0.5 * 4 + 1) / 1.5],
  ]);
});

test('points are few, and stay where they are while a run grows', () => {
  expect([1, 400, 401, 2001, 100_000].map((last) => stepsPerPoint(last, 400))).toEqual([
    1, 1, 2, 10, 500,
  ]);
  const points = (last: number) => Array.from({ length: last }, (_, i): Point => [i + 1, i + 1]);
  expect(thin(points(3), 1, mean)).toEqual(points(3));
  expect(thin(points(5), 2, mean)).toEqual([
    [2, 1.5],
    [4, 3.5],
    [5, 5],
  ]);
  const long = thin(points(100_000), stepsPerPoint(100_000, 400), largest);
  expect(long).toHaveLength(200);
  expect(thin(points(90_000), 500, largest)).toEqual(long.slice(0, 180));
});

test('a point is a gap only where none of its steps was finite', () => {
  const points: Point[] = [
    [1, null],
    [2, 8],
    [3, null],
    [4, null],
  ];
  expect(thin(points, 2, largest)).toEqual([
    [2, 8],
    [4, null],
  ]);
});

test('curves share their x; a gap is not the same as no point', () => {
  const { x, columns } = align([
    [
      [1, 10],
      [10, null],
    ],
    [[2, 20]],
  ]);
  expect(x).toEqual([1, 2, 10]);
  expect(columns).toEqual([
    [10, undefined, null],
    [undefined, 20, undefined],
  ]);
  expect([1, 0, -1, null, undefined].map(positive)).toEqual([1, null, null, null, undefined]);
});

test('a profile has the stream that each layer reads, and what the last one leaves', () => {
  const line = (layer: number, sublayer: string, point: string, rms: number, more = {}) =>
    JSON.stringify({ step: 7, layer, sublayer, point, rms, grad_rms: -rms, ...more });
  const profile = noProfile();
  addProfile(profile, [
    '{"addnorm_profile":1,"model":{"n_layers":2}}',
    line(0, 'attention', 'x', 1),
    line(0, 'attention', 'sum', 9),
    line(0, 'attention', 'x', 9, { norm: 'before' }),
    line(0, 'feed_forward', 'after', 9),
    line(1, 'attention', 'x', 2),
    line(1, 'feed_forward', 'sum', 3),
  ]);
  expect(placesAt(profile, 6)).toBe(undefined);
  expect(placesAt(profile, 100)).toEqual({ stream: [1, 2, 3], gradient: [-1, -2, -3] });
  addProfile(profile, [line(1, 'feed_forward', 'after', 4)]);
  expect(placesAt(profile, 7)!.stream).toEqual([1, 2, 4]);
  addProfile(profile, [
    '{"addnorm_profile":1,"model":{"n_layers":1e15}}',
    line(1e15, 'attention', 'x', 9),
    line('1' as never, 'attention', 'x', 9),
    line(1, 'attention', 'x', '9' as never),
  ]);
  expect(profile.layers).toBe(2);
  expect(placesAt(profile, 7)!.stream).toEqual([1, 2, 4]);
});

test('settings are listed where runs differ', () => {
  const a = { lr: 0.1, text: ['a'], layers: 6 };
  expect(differing([a, { ...a, lr: 0.2, clip: 1 }])).toEqual(['lr', 'clip']);
  expect(differing([a, { ...a, text: ['a'] }])).toEqual([]);
});

test('names of runs come back from a link, whatever they hold', () => {
  const names = ['a/b', 'a,b', '%2C', 'ä b'];
  expect(state.shown.field.read(state.shown.field.write(names))).toEqual(names);
  expect(state.shown.field.read('')).toEqual([]);
});
