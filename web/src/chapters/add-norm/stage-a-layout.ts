// The layout of stage A: left to right on wide screens, else top to bottom.

import type { Box, Point } from '../../ui/marks';

interface Text {
  at: Point;
  anchor?: 'start' | 'middle' | 'end';
}

export interface Layout {
  height: number;
  /** y between which bars may leave their charts, so that those of two charts do not cross. */
  burst: Record<'branch' | 'sum', readonly [top: number, bottom: number]>;
  input: Point;
  split: Point;
  identity: Point[]; // from the split to the chart of x
  branch: Point[]; // from the split to the chart of F(x)
  sublayer: Box;
  charts: Record<'x' | 'branch' | 'sum', Box>;
  plus: Point;
  merges: { identity: Point[]; branch: Point[] };
  next: Point[];
  labels: Record<'identity' | 'highway' | 'transformation' | 'diversion' | 'next', Text>;
  titles: Record<'x' | 'branch' | 'sum', Text>;
  spots: Record<'split' | 'identity' | 'branch' | 'merge', Box>;
}

export const WIDTH = 700;
export const PLUS = 12; // the radius

export function layoutOf(width: number): Layout {
  return width < WIDTH ? downward(width) : rightward();
}

function rightward(): Layout {
  const [y, top, bottom] = [175, 80, 270]; // y of the input and the two paths
  const chart = { x: 380, width: 150, height: 132 };
  const charts = {
    x: { ...chart, y: top - 66 },
    branch: { ...chart, y: bottom - 66 },
    sum: { x: 552, y: bottom - 66, width: 146, height: 132 },
  };
  const end = chart.x + chart.width;
  return {
    height: 350,
    burst: { branch: [104, 374], sum: [20, 374] },
    input: [40, y],
    split: [90, y],
    identity: [
      [90, y],
      [90, top],
      [chart.x, top],
    ],
    branch: [
      [90, y],
      [90, bottom],
      [chart.x, bottom],
    ],
    sublayer: { x: 240, y: bottom - 30, width: 112, height: 60 },
    charts,
    plus: [580, y],
    merges: {
      identity: [
        [end, top],
        [580, top],
        [580, y - PLUS],
      ],
      branch: [
        [end, bottom],
        [540, bottom],
        [540, y],
        [580 - PLUS, y],
      ],
    },
    next: [
      [580 + PLUS, y],
      [690, y],
    ],
    labels: {
      identity: { at: [235, top - 17] },
      highway: { at: [235, top + 17] },
      transformation: { at: [296, bottom + 45] },
      diversion: { at: [165, bottom + 17] },
      next: { at: [641, y - 14] },
    },
    titles: {
      x: { at: [455, 11] },
      branch: { at: [455, 199] },
      sum: { at: [630, 199] },
    },
    spots: {
      split: { x: 4, y: 140, width: 104, height: 70 },
      identity: { x: 78, y: 2, width: 458, height: 146 },
      branch: { x: 78, y: 186, width: 458, height: 156 },
      merge: { x: 538, y: 60, width: 160, height: 282 },
    },
  };
}

/** x and F(x) side by side, and their sum below: low enough to be seen together with stage B. */
function downward(width: number): Layout {
  const centre = width / 2;
  const [left, right] = [34, 0.75 * width]; // x of the two paths
  const chart = { y: 112, width: width / 2 - 28, height: 100 };
  const charts = {
    x: { ...chart, x: 20 },
    branch: { ...chart, x: centre + 22 },
    sum: { ...chart, x: 46, y: 258, width: width - 80 },
  };
  const [split, floor, merged] = [54, chart.y + chart.height, 226];
  const merge = (x: number, side: number): Point[] => [
    [x, floor],
    [x, merged],
    [centre + side * PLUS, merged],
  ];
  return {
    height: 380,
    burst: { branch: [20, 206], sum: [240, 390] },
    input: [centre, 23],
    split: [centre, split],
    identity: [
      [centre, split],
      [left, split],
      [left, chart.y],
    ],
    branch: [
      [centre, split],
      [right, split],
      [right, chart.y],
    ],
    sublayer: { x: right - 60, y: 62, width: 120, height: 32 },
    charts,
    plus: [centre, merged],
    merges: { identity: merge(width / 4, -1), branch: merge(right, 1) },
    next: [
      [centre, 362],
      [centre, 378],
    ],
    labels: {
      identity: { at: [left + 8, 76], anchor: 'start' },
      highway: { at: [left + 8, 92], anchor: 'start' },
      transformation: { at: [right - 8, 103], anchor: 'end' },
      diversion: { at: [right - 4, 42], anchor: 'start' },
      next: { at: [centre + 10, 369], anchor: 'start' },
    },
    titles: {
      x: { at: [left - 10, 98], anchor: 'end' },
      branch: { at: [right + 8, 103], anchor: 'start' },
      sum: { at: [centre, 248] },
    },
    spots: {
      split: { x: 4, y: 2, width: width - 8, height: 60 },
      identity: { x: 2, y: 46, width: centre - 2, height: 172 },
      branch: { x: centre + 2, y: 46, width: centre - 4, height: 172 },
      merge: { x: 34, y: 212, width: width - 60, height: 152 },
    },
  };
}
