// Where the parts of the three sublayers stand: x above, and a column for each.

import type { Box } from '../../ui/marks';

export interface Column {
  centre: number; // where the branch runs
  stream: number; // where the residual path runs
  left: number;
  width: number;
}

export const ROWS = {
  x: { y: 20, height: 130 },
  split: 162, // where x goes to the columns
  title: 186,
  formula: 204,
  fork: 222, // where the residual path leaves
  before: 234, // the slot of a norm
  sublayer: 274,
  gives: { y: 306, height: 150 },
  plus: 482,
  after: 508,
  leaves: { y: 552, height: 170 },
} as const;

export const HEIGHT = ROWS.leaves.y + ROWS.leaves.height;
export const SLOT = { width: 76, height: 26 };

export function columnsOf(width: number, count: number): Column[] {
  const gap = width < 560 ? 10 : 36;
  const each = (width - (count - 1) * gap) / count;
  return Array.from({ length: count }, (_, i) => {
    const left = i * (each + gap);
    return { left, width: each, centre: left + each / 2 + 6, stream: left + 6 };
  });
}

/** The chart of a column, beside its residual path. */
export function chartIn(
  { left, width }: Column,
  { y, height }: { y: number; height: number },
): Box {
  return { x: left + 14, y, width: width - 16, height };
}

/** The chart of x, above all columns. */
export function inputChart(width: number): Box {
  const wide = Math.min(260, width - 20);
  return { x: (width - wide) / 2, width: wide, ...ROWS.x };
}
