// Checks which uses of terms get a definition.

import { expect, test } from 'vitest';
import { TERMS } from './terms';
import { FirstUses, splitAtTerms } from './uses';

const all = () => true;
const termsOf = (text: string, isFirst = all as (term: string) => boolean) =>
  splitAtTerms(text, isFirst)
    .filter(({ term }) => term)
    .map(({ text, term }) => [text, term]);

test('the parts of a text are the text', () => {
  const text = 'RMSNorm divides by the RMS, so ε matters; the RMS is never 0.';
  expect(
    splitAtTerms(text, all)
      .map((part) => part.text)
      .join(''),
  ).toBe(text);
});

test('the longest form counts, only as a whole word, and once', () => {
  expect(termsOf('The residual stream is a stream; token similarity is no token.')).toEqual([
    ['residual stream', 'residual-stream'],
    ['token similarity', 'token-similarity'],
    ['token', 'token'],
  ]);
  expect(termsOf('Upstream of RMSNorm, d_model features')).toEqual([
    ['RMSNorm', 'rms-norm'],
    ['features', 'feature'],
  ]);
  expect(termsOf('Pre-norm, and the gradient of γ')).toEqual([
    ['Pre-norm', 'pre-norm'],
    ['gradient', 'gradient'],
    ['γ', 'gamma-beta'],
  ]);
});

test('a term belongs to its first owner until that is gone', () => {
  const uses = new FirstUses();
  const [first, second] = [{}, {}];
  expect(uses.claim('rms', first)).toBe(true);
  expect(uses.claim('rms', second)).toBe(false);
  expect(uses.claim('rms', first)).toBe(true);
  uses.release(first);
  expect(uses.claim('rms', second)).toBe(true);
});

test('every term has its own id, a form and a definition of at most two lines', () => {
  expect(new Set(TERMS.map(({ id }) => id)).size).toBe(TERMS.length);
  for (const { forms, words } of TERMS) {
    expect(forms.split('|').every((form) => form.trim() !== '')).toBe(true);
    expect(words.length).toBeLessThan(170);
  }
});
