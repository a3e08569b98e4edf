import { describe, expect, test } from 'vitest';

import { alignedNumbers, exactNumber, fixedNumber, shortNumber } from './numbers';

describe('shortNumber', () => {
  test.each([
    [0, '0.00'],
    [0.25, '0.25'],
    [-1.3, '−1.30'],
    [12, '12.0'],
    [123.4, '123'],
    [0.0999, '0.10'],
    [0.012, '0.01'],
    [0.0015, '0.0015'],
    [-0.005, '−0.005'],
    [0.00015, '1.5e−4'],
    [3.4e8, '3.4e8'],
    [NaN, 'NaN'],
    [-Infinity, '−∞'],
  ])('%f is %s', (value, text) => {
    expect(shortNumber(value)).toBe(text);
  });

  test('no number but 0 reads as 0', () => {
    for (let v = 1e-12; v < 1e12; v *= 1.7) {
      expect(Number(shortNumber(v).replace('−', '-')) / v).toBeCloseTo(1, 0);
    }
  });
});

test('what rounds to zero has no sign', () => {
  expect(fixedNumber(-0.001, 2)).toBe('0.00');
});

test.each([
  [
    [0.8, -0.4, 0.3],
    ['0.8', '−0.4', '0.3'],
  ],
  [
    [0.85, -0.4, 0],
    ['0.85', '−0.40', '0.00'],
  ],
  [
    [1, 2, -3],
    ['1', '2', '−3'],
  ],
  [
    [12.34, -5.678],
    ['12.3', '−5.7'],
  ],
  [
    [0.0012, 0],
    ['0.0012', '0.00'],
  ],
  [
    [1e300, 1],
    ['1.0e300', '1.00'],
  ],
])('%o side by side are %o', (values, texts) => {
  expect(alignedNumbers(values)).toEqual(texts);
});

test.each([
  [0, '0'],
  [3, '3'],
  [-1024, '−1024'],
  [0.1, '0.1000000'],
  [1 - 1e-9, '1.000000'], // not exactly 1
  [123456789, '1.234568e8'],
  [NaN, 'NaN'],
])('in a table %f is %s: a whole number has no decimals', (value, text) => {
  expect(exactNumber(value)).toBe(text);
});
