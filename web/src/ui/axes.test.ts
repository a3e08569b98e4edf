import { scaleLinear, scaleLog } from 'd3-scale';
import { expect, test } from 'vitest';
import { linearDomain, linearTicks, logDomain, logTicks } from './axes';

const texts = (ticks: { text: string }[]) => ticks.map(({ text }) => text);
const linear = (from: number, to: number) => scaleLinear().domain([from, to]);
const logarithmic = (from: number, to: number) => scaleLog().domain(logDomain(from, to));

test('linear ticks are round and inside', () => {
  expect(texts(linearTicks(linear(-0.2, 4.1), 4))).toEqual(['0', '1', '2', '3', '4']);
  expect(texts(linearTicks(linear(-1, 1), 4))).toEqual(['−1', '−0.5', '0', '0.5', '1']);
  expect(texts(linearTicks(linear(0, 3e300), 3))).toEqual(['0', '1e300', '2e300', '3e300']);
  expect(texts(linearTicks(linear(0, 2), 8, true))).toEqual(['0', '1', '2']);
});

test('a linear axis does not magnify the noise of nearly equal values', () => {
  for (const [min, max] of [
    [0.99988, 0.99994],
    [3e-4, 3e-4],
    [-2.0001, -2],
    [0, 0],
    [1e9, 1e9 + 1],
  ]) {
    const [low, high] = linearDomain(min, max);
    expect(high - low).toBeGreaterThanOrEqual(0.0499 * Math.max(Math.abs(min), Math.abs(max)));
    expect(high).toBeGreaterThan(low);
    expect(low).toBeLessThanOrEqual(min);
    expect(high).toBeGreaterThanOrEqual(max);
    if (min >= 0) expect(low).toBeGreaterThanOrEqual(0);
  }
  expect(linearDomain(2, 3)).toEqual([2, 3]);
  expect(linearDomain(-0.1, 0.1)).toEqual([-0.1, 0.1]);
});

test('a logarithmic axis of few decades has 1, 2 and 5, one of many has powers', () => {
  expect(texts(logTicks(logarithmic(2e-4, 5e-4)))).toEqual(['2e−4', '3e−4', '4e−4', '5e−4']);
  expect(texts(logTicks(logarithmic(0.3, 12)))).toEqual(['0.2', '0.5', '1', '2', '5', '10', '20']);
  const many = texts(logTicks(logarithmic(3e-37, 1)));
  expect(many.length).toBeLessThanOrEqual(10);
  expect(many.at(-1)).toBe('1');
  for (const text of many.slice(0, -1)) expect(text).toMatch(/^1e−\d+$/);
});

test('a logarithmic axis holds its values, however small or alike', () => {
  for (const [min, max] of [
    [1e-300, 1e-290],
    [1, 1],
    [0.2, 0.2],
    [7e-46, 3e38],
  ]) {
    const [low, high] = logDomain(min, max);
    expect(low).toBeLessThanOrEqual(1.005 * min);
    expect(high).toBeGreaterThanOrEqual(max / 1.005);
    expect(high).toBeGreaterThan(low);
  }
});
