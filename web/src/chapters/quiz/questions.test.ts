// Checks statements of the questions.

import { expect, test } from 'vitest';
import { questions } from './questions';

test('in pre-norm the variance of the stream grows with L, and its size with √L', () => {
  const { answers, right } = questions.find(({ id }) => id === 'q6')!;
  expect(answers[right].reply).toContain('variance grows linearly with L');
  expect(answers[right].reply).toContain('with √L');
});
