import { expect, test } from 'vitest';
import {
  byteName,
  featureWords,
  gammaWords,
  growthWords,
  lensWords,
  median,
  placeOf,
  priceWords,
  ranked,
} from './words';

test('the stream: where it is largest, and how it ends', () => {
  const words = (...stream: number[]) => growthWords({ stream });
  expect(words(1, 1.5, 3)).toBe(
    'On this prompt the stream begins with an RMS of 1 and is largest at the end, with 3.',
  );
  expect(words(1, 2, 4, 3, 2)).toContain(
    'an RMS of 1, is largest before layer 1, with 4, and ends',
  );
  expect(words(1, 2, 3, 5, 2)).toContain('is largest in layer 1, with 5, and ends with 2.');
  expect(words(2, 1, 1)).toContain('an RMS of 2, its largest, and ends with 1.');
});

test('the price: what the first layer, those between and the last add', () => {
  const words = (...branch: number[]) =>
    priceWords({ stream: Array.from({ length: branch.length + 1 }, () => 2), branch });
  expect(words(2, 2, 1, 1, 0.5, 0.5)).toBe(
    'On average a branch adds 100 % of the stream’s size in the first layer, 50 % in the middle ' +
      'layers and 25 % in the last. So each layer changes the stream less than the layers before it.',
  );
  expect(words(2, 2, 1, 1, 3, 3)).toContain('The middle layers pay this price. The last layer');
  expect(words(1, 1, 2, 2, 3, 3)).toContain('later layers do not change the stream less');
});

test('the logit lens: the layer from which on the answer stays, and the loss', () => {
  const lens = (...answers: string[]) =>
    answers.map((answer, i) => {
      const next = new Float64Array(256);
      next[answer.charCodeAt(0)] = 1;
      return { next, loss: 5 - i };
    });
  expect(lensWords(lens('a', 'b', 'b'))).toBe(
    'Here the answer of the whole network, b, is the likeliest byte from layer 0 on. Over the ' +
      'prompt the loss goes from 5 after the embedding to 3 after the last layer.',
  );
  expect(lensWords(lens('b', 'b', 'a', 'b'))).toContain('from layer 2 on');
  expect(lensWords(lens('b', 'b'))).toContain('from the start');
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
    'Now γ ranges from 0.40 to 2.00. The norm before feed-forward 0 treats its features most unequally.',
  );
});

test('layers by their place, bytes by their name', () => {
  expect([0, 3, 7].map((layer) => placeOf(layer, 8))).toEqual(['first', 'middle', 'last']);
  expect([32, 10, 97, 0, 195].map(byteName)).toEqual(['space', 'new line', 'a', '0x00', '0xc3']);
});
