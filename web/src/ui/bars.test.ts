// Checks that the labels of bars lie in the chart, apart from each other and from the mean's line.

import { expect, test } from 'vitest';
import { type BarChart, heightScale, labelPlaces, ROOM_FOR_TWO_LINES } from './bars';
import { uniform } from './random';

const HALF = 6; // half the height of a digit's line
const box = { x: 28, y: 2, width: 168, height: 246 };
const PITCH = box.width / 5;

function expectLegible(chart: BarChart, widths: readonly number[]): void {
  const places = labelPlaces(chart, widths);
  const say = JSON.stringify(chart.values);
  places.forEach((y, i) => {
    expect(y - HALF, say).toBeGreaterThanOrEqual(box.y);
    expect(y + HALF, say).toBeLessThanOrEqual(box.y + box.height);
    if (i > 0 && (widths[i] + widths[i - 1]) / 2 > PITCH - 2) {
      expect(Math.abs(y - places[i - 1]), say).toBeGreaterThanOrEqual(2 * HALF);
    }
  });
}

test('with γ = 3 and β = −2 the labels of y lie in the chart', () => {
  const values = [0.53, -2.28, -3.69, -6.5, 1.93];
  const chart = { box, values, colour: '', range: 3, zeroLine: true, room: ROOM_FOR_TWO_LINES };
  expectLegible(chart, [28, 36, 36, 36, 28]);
});

test('any values have labels in the chart', () => {
  const random = uniform(1);
  for (let n = 0; n < 2000; n++) {
    const values = Array.from({ length: 5 }, () => 12 * random() - 6);
    const widths = values.map((v) => (v < 0 ? 36 : 28));
    expectLegible({ box, values, colour: '', range: 3, room: ROOM_FOR_TWO_LINES }, widths);
    expectLegible({ box, values, colour: '', range: 3 }, widths);
  }
});

test('the line of the mean passes through no label', () => {
  for (let mean = -1; mean <= 1; mean += 0.05) {
    const values = [0.1, 0.2, -0.1, -0.2, 0.4];
    const chart = { box, values, colour: '', range: 3, mean, room: ROOM_FOR_TWO_LINES };
    for (const y of labelPlaces(chart, [24, 24, 28, 28, 24])) {
      expect(Math.abs(y - heightScale(chart)(mean))).toBeGreaterThan(HALF);
    }
  }
});
