// The layout of the three sublayers: x at the top, then one column per sublayer.

import type { Box } from '../../ui/marks';

export interface Column {
  centre: number; // x of the branch
  stream: number; // x of the residual path
  left: number;
  width: number;
}

const CHART = 140; // keeps one scale for the bars of all rows

export const ROWS = {
  x: { y: 6, height: CHART },
  split: 144, // y at which x splits into the columns
  title: 166,
  formula: 184,
  fork: 202, // y at which the residual path leaves
  before: 214, // the norm's slot
  sublayer: 252,
  gives: { y: 268, height: CHART },
  plus: 420,
  after: 442,
  leaves: { y: 466, height: CHART },
} as const;

/** The distance between the edge of a chart and the lines that end at its bars. */
export const AIR = 17;
export const HEIGHT = ROWS.leaves.y + CHART - 6;
export const SLOT = { width: 76, height: 26 };

export function columnsOf(width: number, count: number): Column[] {
  const gap = width < 560 ? 10 : 36;
  const each = (width - (count - 1) * gap) / count;
  return Array.from({ length: count }, (_, i) => {
    const left = i * (each + gap);
    return { left, width: each, centre: left + each / 2 + 6, stream: left + 6 };
  });
}

/** The chart of a column, next to its residual path. */
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
