// The recorded numbers of a real model, and the facts that the page states about them.

import { expect, test } from 'vitest';
import { MUTED, PEAK, recorded } from './recorded';

const { layers, width, tokens, feature, rms, largest, top, gamma } = recorded;

test('has a number for each layer and the end, and five numbers of each γ', () => {
  expect([layers, width]).toEqual([30, 576]); // of the model's config
  expect(tokens).toBeGreaterThanOrEqual(60);
  const rows = [rms, largest, top].flatMap((part) => Object.values(part));
  expect(rows.map(({ length }) => length)).toEqual(Array(7).fill(layers + 1));
  const { attention, feedForward, final, ofFeature } = gamma;
  expect([attention.length, feedForward.length]).toEqual([layers, layers]);
  expect([ofFeature.attention.length, ofFeature.feedForward.length]).toEqual([layers, layers]);
  for (const all of [...attention, ...feedForward, final]) {
    expect(all).toHaveLength(5);
    expect(all).toEqual([...all].sort((a, b) => a - b));
  }
});

test('a feature is at most √width times the RMS, and holds the share of it that is recorded', () => {
  for (const token of ['median', 'first'] as const) {
    largest[token].forEach((v, place) => {
      expect(v).toBeGreaterThan(rms[token][place]);
      expect(v).toBeLessThanOrEqual(1.01 * Math.sqrt(width) * rms[token][place]);
    });
  }
  top.token.forEach((token, place) => {
    if (token !== 0) return;
    const share = (largest.first[place] / rms.first[place]) ** 2 / width;
    expect(share / top.share[place]).toBeCloseTo(1, 1); // of numbers of three digits
  });
});

test('in one layer the largest feature jumps, in the first token; the last two layers reduce it', () => {
  const most = largest.first[PEAK];
  expect(PEAK).toBe(12);
  expect(largest.first[PEAK - 1]).toBeLessThan(0.01 * most);
  for (let place = PEAK; place <= layers - 2; ++place) {
    expect(largest.first[place]).toBeGreaterThan(0.95 * most);
    expect([top.token[place], top.feature[place]]).toEqual([0, feature]);
    expect(top.share[place]).toBeGreaterThan(0.98);
  }
  expect(largest.first[layers - 1]).toBeLessThan(0.5 * most);
  expect(largest.first[layers]).toBeLessThan(0.5 * largest.first[layers - 1]);
  expect(most / rms.median[PEAK]).toBeGreaterThan(4000);
  expect(rms.median.every((v, place) => place === 0 || v >= rms.median[place - 1])).toBe(true);
});

test('the feed-forward norms of these layers hardly pass it on, those of attention do', () => {
  const { attention, feedForward } = gamma.ofFeature;
  for (let layer = MUTED.from; layer <= MUTED.to; ++layer) {
    expect(feedForward[layer]).toBeLessThan(0.001);
    expect(gamma.feedForward[layer][2]).toBeGreaterThan(0.2); // the median
    expect(attention[layer]).toBeGreaterThan(0.05);
  }
  expect(feedForward[MUTED.from - 1]).toBeGreaterThan(0.001);
  expect(feedForward[MUTED.to + 1]).toBeGreaterThan(0.001);
});
