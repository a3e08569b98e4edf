// Checks the values of chapters that are more than a choice or a number.

import { expect, test } from 'vitest';
import { uniform } from '../ui/random';
import { drawValues, LIMIT, state as addNorm } from './add-norm/state';
import { CONTEXT, state as model } from './model/state';
import { features512 } from './step-by-step/examples';
import { state as stepByStep } from './step-by-step/state';

test('random values are in their range, with two decimals and without a negative zero', () => {
  for (const random of [0, 0.499, 0.4999, 0.5, 0.5001, 0.7, 0.99999]) {
    drawValues(() => random);
    for (const value of [...addNorm.x.value, ...addNorm.branch.value]) {
      expect(Math.abs(value)).toBeLessThanOrEqual(LIMIT);
      expect(Object.is(value, -0)).toBe(false);
      expect(String(value)).toMatch(/^-?[01](\.\d\d?)?$/);
      expect(value).toBeCloseTo(2 * random - 1, 1);
    }
  }
  addNorm.x.reset();
  addNorm.branch.reset();
});

test('a prompt has two bytes or more, and no more than the network reads', () => {
  const { field } = model.prompt;
  for (const text of ['ab', 'ä', 'a'.repeat(CONTEXT), 'ä'.repeat(CONTEXT / 2)]) {
    expect(field.read(text)).toBe(text);
  }
  for (const text of ['', 'a', 'a'.repeat(CONTEXT + 1), `${'ä'.repeat(CONTEXT / 2)}.`]) {
    expect(() => field.read(text)).toThrow(`it must have from 2 to ${CONTEXT}`);
  }
});

test('a link has the name of an example in place of its 512 values', () => {
  const { x } = stepByStep;
  x.value = features512;
  expect(x.text).toBe('512-features');
  x.value = [...features512];
  expect(x.text.split(',')).toHaveLength(512);
  x.read('512-features');
  expect(x.value).toBe(features512);
  x.reset();
});

test('each seed has random numbers of its own, those of mulberry32', () => {
  const numbers = (seed: number) => Array.from({ length: 3 }, uniform(seed));
  expect(numbers(1)).toEqual([0.6270739405881613, 0.002735721180215478, 0.5274470399599522]);
  expect(numbers(0)[0]).toBe(0.26642920868471265);
  expect(numbers(7)).toEqual(numbers(7));
});
