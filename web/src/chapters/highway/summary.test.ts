import { expect, test } from 'vitest';
import { summary } from './summary';

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
