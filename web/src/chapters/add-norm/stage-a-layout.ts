// The layout of stage A: left to right on wide screens, else top to bottom.

import type { Box, Point } from '../../ui/marks';

interface Text {
  at: Point;
  anchor?: 'start' | 'middle' | 'end';
}

export interface Layout {
  height: number;
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

function downward(width: number): Layout {
  const centre = width / 2;
  const [left, right] = [16, width - 16]; // x of the two paths; each passes the other path's chart
  const chart = { x: 46, width: width - 80, height: 124 };
  const charts = {
    x: { ...chart, y: 126 },
    branch: { ...chart, y: 380 },
    sum: { ...chart, y: 572 },
  };
  const down = 88; // y at which the identity path enters the chart of x
  const [foot, floor, merged] = [126 + 124, 380 + 124, 536];
  return {
    height: 734,
    input: [centre, 26],
    split: [centre, 70],
    identity: [
      [centre, 70],
      [down, 70],
      [down, charts.x.y],
    ],
    branch: [
      [centre, 70],
      [right, 70],
      [right, 276],
      [centre, 276],
      [centre, charts.branch.y],
    ],
    sublayer: { x: centre - 60, y: 290, width: 120, height: 42 },
    charts,
    plus: [centre, merged],
    merges: {
      identity: [
        [down, foot],
        [down, 264],
        [left, 264],
        [left, merged],
        [centre - PLUS, merged],
      ],
      branch: [
        [centre, floor],
        [centre, merged - PLUS],
      ],
    },
    next: [
      [centre, 696],
      [centre, 728],
    ],
    labels: {
      identity: { at: [down + 10, 90], anchor: 'start' },
      highway: { at: [down + 10, 107], anchor: 'start' },
      transformation: { at: [centre + 10, 347], anchor: 'start' },
      diversion: { at: [centre + 10, 364], anchor: 'start' },
      next: { at: [centre + 10, 712], anchor: 'start' },
    },
    titles: {
      x: { at: [down - 10, 112], anchor: 'end' },
      branch: { at: [centre - 10, 364], anchor: 'end' },
      sum: { at: [centre, 562] },
    },
    spots: {
      split: { x: 4, y: 2, width: width - 8, height: 84 },
      identity: { x: 4, y: 58, width: width - 30, height: 200 },
      branch: { x: 34, y: 266, width: width - 36, height: 244 },
      merge: { x: 34, y: 516, width: width - 60, height: 186 },
    },
  };
}
