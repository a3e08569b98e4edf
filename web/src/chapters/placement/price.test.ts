import { expect, test } from 'vitest';
import { priceWords } from './price';

const stacks = (pre: number[], post: number[]) =>
  Object.entries({ post, pre }).map(([placement, turn]) => ({
    placement,
    measurement: { loss: 1, stream: [], gradient: [], tokenCosine: [], turn },
  }));

test('the price is said to be as high as it is', () => {
  expect(priceWords(stacks([40, 20, 10], [42, 41, 40]))).toBe(
    'Pre-norm turns the stream by 40° in the first layer and by 10° in the last. Post-norm turns it ' +
      'by 42° in the first layer and by 40° in the last. This is the price: pre-norm’s last layer ' +
      'turns the stream 0.25 times as far as its first, post-norm’s 0.95 times.',
  );
  expect(priceWords(stacks([12, 11], [12, 12]))).toContain(
    'later layers lose no more effect here than post-norm’s',
  );
  expect(priceWords(stacks([12], [12]))).toContain('no later layer');
});
