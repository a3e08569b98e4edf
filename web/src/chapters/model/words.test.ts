import { expect, test } from 'vitest';
import { byteName, featureWords, gammaWords, growthWords, median, placeOf, ranked } from './words';

test('the stream that grows, and the one that does not', () => {
  expect(growthWords({ stream: [1, 1.5, 3], branch: [0.5, 0.6] })).toBe(
    'On this prompt the stream grows 3-fold, from an RMS of 1 to 3. A branch has from 40 % ' +
      '(feed-forward 0) to 50 % (attention 0) of the size of what it is added to.',
  );
  expect(growthWords({ stream: [2, 1, 1], branch: [1, 1] })).toContain('does not grow, from');
});

test('features: the largest first, and how far it is from the median', () => {
  expect(ranked([1, 5, 3])).toEqual([1, 2, 0]);
  expect(median([4, 1, 3])).toBe(3);
  expect(median([4, 1, 3, 2])).toBe(2.5);
  expect(
    featureWords([
      [1, 2, 1],
      [1, 1, 8],
    ]),
  ).toMatch(/feature 2 is the largest: its RMS is 8, 8\.0 times .* 2\.0 times the median\./);
});

test('γ: the range of all, and the norm whose largest is most times its least', () => {
  const gammas = [
    [1, 1],
    [0.5, 2],
    [0.4, 0.4],
  ].map((gamma) => Float32Array.from(gamma));
  expect(gammaWords(gammas)).toBe(
    'Now they run from 0.40 to 2.00. The norm before feed-forward 0 treats its features most unequally.',
  );
});

test('layers by their place, bytes by their name', () => {
  expect([0, 3, 7].map((layer) => placeOf(layer, 8))).toEqual(['first', 'middle', 'last']);
  expect([32, 10, 97, 0, 195].map(byteName)).toEqual(['space', 'new line', 'a', '0x00', '0xc3']);
});
