import { expect, test } from 'vitest';
import { summary } from './summary';

test('the summary names the stacks in which the gradient arrives', () => {
  const [good, bad] = [
    [1, 2, 3],
    [1, 1e-3, 1],
  ];
  expect(summary([bad, bad, bad, good])).toContain('only in “Both”.');
  expect(summary([bad, good, bad, good])).toContain('in “Norm only” and “Both”');
  expect(summary([bad, bad, bad, bad])).toContain('no stack');
  expect(summary([good, good, good, good])).toContain('all four');
});
