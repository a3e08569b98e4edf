// Checks which measured points count as failing.

import { expect, test } from 'vitest';
import type { LabCurve, LabPanel } from '../../kernels/lab';
import { failuresOf } from './failures';

const curve = (values: Partial<LabCurve>): LabCurve => ({
  name: '',
  key: '',
  color: 0,
  x: [1, 2, 3],
  y: [],
  low: [],
  high: [],
  ...values,
});
const panel = (...predicted: LabCurve[]) => ({ predicted }) as unknown as LabPanel;

const band = curve({ x: [1, 3], low: [0, 0], high: [1, 1] });

test('a value outside the band of its colour fails, at the places of the band alone', () => {
  expect(failuresOf(curve({ y: [2, 2, 0.5] }), panel(band))).toEqual([true, false, false]);
  expect(failuresOf(curve({ y: [2, 2, 2], color: 1 }), panel(band))).toEqual([false, false, false]);
});

test('an infinite edge allows all, a missing band claims nothing, and NaN fails', () => {
  const open = curve({ x: [1, 2, 3], low: [0, null, 0], high: [null, null, 1] });
  expect(failuresOf(curve({ y: [1e9, 5, null] }), panel(open))).toEqual([false, false, true]);
});
