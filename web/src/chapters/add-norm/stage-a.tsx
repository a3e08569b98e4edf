// Stage A: the split, the two paths, the addition. One drawing for wide pages, one for narrow.

import { type BarChart, BarHandles, drawBars, heightOf } from '../../ui/bars';
import { COLOURS } from '../../ui/colours';
import {
  drawAcross,
  drawDisc,
  drawLine,
  drawText,
  type Point,
  type Points,
  type TextStyle,
} from '../../ui/draw';
import { type Box, type Context, Figure, type Size } from '../../ui/figure';
import { roundNumber } from '../../ui/numbers';
import { type AddNorm, INJECTED, result } from './compute';
import { LIMIT, state } from './state';
import { Spot } from './tour';

interface Label {
  at: Point;
  align?: CanvasTextAlign;
  twoLines?: boolean; // at the blank
}

interface Layout {
  size: Size;
  input: Point;
  split: Point;
  identity: Points; // from the split to the chart of x
  branch: Points; // from the split to the chart of F(x)
  sublayer: Box;
  charts: { x: Box; branch: Box; sum: Box };
  plus: Point;
  merges: { identity: Points; branch: Points };
  next: Points;
  labels: Record<'identity' | 'highway' | 'transformation' | 'diversion' | 'next', Label>;
  titles: { x: Label; branch: Label; sum: Label };
  spots: Record<'split' | 'identity' | 'branch' | 'merge', Box>;
}

const WIDE: Layout = {
  size: { width: 700, height: 350 },
  input: [30, 175],
  split: [90, 175],
  identity: [90, 175, 90, 80, 380, 80],
  branch: [90, 175, 90, 270, 380, 270],
  sublayer: { x: 260, y: 240, width: 100, height: 60 },
  charts: {
    x: { x: 380, y: 14, width: 150, height: 132 },
    branch: { x: 380, y: 204, width: 150, height: 132 },
    sum: { x: 562, y: 204, width: 136, height: 132 },
  },
  plus: [580, 175],
  merges: {
    identity: [530, 80, 580, 80, 580, 163],
    branch: [530, 270, 540, 270, 540, 175, 568, 175],
  },
  next: [592, 175, 690, 175],
  labels: {
    identity: { at: [235, 62] },
    highway: { at: [235, 98] },
    transformation: { at: [302, 315] },
    diversion: { at: [175, 288] },
    next: { at: [641, 160] },
  },
  titles: { x: { at: [455, 11] }, branch: { at: [455, 197] }, sum: { at: [630, 197] } },
  spots: {
    split: { x: 4, y: 140, width: 104, height: 70 },
    identity: { x: 78, y: 0, width: 458, height: 150 },
    branch: { x: 78, y: 186, width: 458, height: 156 },
    merge: { x: 538, y: 60, width: 162, height: 282 },
  },
};

const NARROW: Layout = {
  size: { width: 328, height: 570 },
  input: [164, 28],
  split: [164, 68],
  identity: [164, 68, 83, 68, 83, 206],
  branch: [164, 68, 245, 68, 245, 206],
  sublayer: { x: 195, y: 88, width: 100, height: 60 },
  charts: {
    x: { x: 24, y: 206, width: 134, height: 130 },
    branch: { x: 188, y: 206, width: 134, height: 130 },
    sum: { x: 74, y: 412, width: 180, height: 116 },
  },
  plus: [164, 364],
  merges: {
    identity: [83, 336, 83, 364, 152, 364],
    branch: [245, 336, 245, 364, 176, 364],
  },
  next: [164, 528, 164, 562],
  labels: {
    identity: { at: [74, 96], align: 'right', twoLines: true },
    highway: { at: [92, 140], align: 'left' },
    transformation: { at: [236, 162], align: 'right' },
    diversion: { at: [254, 162], align: 'left' },
    next: { at: [176, 546], align: 'left' },
  },
  titles: {
    x: { at: [74, 194], align: 'right' },
    branch: { at: [254, 194], align: 'left' },
    sum: { at: [176, 396], align: 'left' },
  },
  spots: {
    split: { x: 76, y: 2, width: 176, height: 84 },
    identity: { x: 2, y: 56, width: 160, height: 284 },
    branch: { x: 166, y: 56, width: 160, height: 284 },
    merge: { x: 66, y: 346, width: 196, height: 184 },
  },
};

/** All three charts have this range, so that their bars add up. x + F(x) fits; 10·F(x) may not. */
const RANGE = 2 * LIMIT;

function layoutOf(size: Size): Layout {
  return size.width === WIDE.size.width ? WIDE : NARROW;
}

function chartsOf({ charts }: Layout, { identity, branch, sum }: AddNorm) {
  const chart = (box: Box, values: readonly number[], colour: string): BarChart => ({
    box,
    values,
    colour,
    range: RANGE,
    zeroLine: true,
  });
  return {
    x: chart(charts.x, identity, COLOURS.identity),
    branch: chart(charts.branch, branch, COLOURS.branch),
    sum: chart(charts.sum, sum, sumColour()),
  };
}

function sumColour(): string {
  return state.unstable.value ? COLOURS.unstable : COLOURS.stable;
}

/** The sum as it is now: "s = x + 10·F(x)". */
function sumName(): string {
  return `s = ${state.residual.value ? 'x + ' : ''}${branchName()}`;
}

function branchName(): string {
  return state.unstable.value ? `${INJECTED}·F(x)` : 'F(x)';
}

export function StageA() {
  const { identity, branch, sum } = result.value;
  return (
    <Figure
      name={
        'Stage A. The input x goes two ways: unchanged along the identity path, and through ' +
        'attention or feed-forward network, which makes F(x) of it. A plus adds the two. ' +
        'Bars show x, F(x) and their sum s.'
      }
      size={WIDE.size}
      narrow={NARROW.size}
      draw={drawStageA}
      overlay={(size) => <Overlay layout={layoutOf(size)} />}
      caption="Stage A: the addition"
      rows={[
        { name: 'x', id: 'x', values: state.x.value },
        { name: 'identity path', id: 'identity', values: identity },
        { name: branchName(), id: 'branch', values: branch },
        { name: sumName(), id: 'sum', values: sum },
      ]}
    />
  );
}

function Overlay({ layout }: { layout: Layout }) {
  const charts = chartsOf(layout, result.value);
  const handles = { size: layout.size, limit: LIMIT, step: 0.05 };
  const factor = state.unstable.value ? INJECTED : 1;
  return (
    <>
      {Object.entries(layout.spots).map(([part, box]) => (
        <Spot key={part} part={part as keyof Layout['spots']} box={box} size={layout.size} />
      ))}
      {state.residual.value && <BarHandles {...handles} chart={charts.x} item={state.x} name="x" />}
      <BarHandles
        {...handles}
        chart={charts.branch}
        item={state.branch}
        name="F(x)"
        factor={factor}
      />
    </>
  );
}

function drawStageA(context: Context, size: Size) {
  const layout = layoutOf(size);
  drawPaths(context, layout);
  drawSublayer(context, layout.sublayer);
  drawInput(context, layout.input);
  drawPlus(context, layout.plus);
  drawLabels(context, layout);
  const { x, branch, sum } = chartsOf(layout, result.value);
  for (const chart of state.residual.value ? [x, branch, sum] : [branch, sum]) {
    drawScale(context, chart, [RANGE, -RANGE]);
    drawBars(context, chart);
  }
}

function drawPaths(context: Context, layout: Layout) {
  const { input, split, merges, next } = layout;
  const on = state.residual.value;
  const identity = { dash: on ? [] : [3, 6] };
  context.globalAlpha = on ? 1 : 0.45;
  drawLine(context, layout.identity, COLOURS.identity, identity);
  drawLine(context, merges.identity, COLOURS.identity, { ...identity, arrow: 9 });
  context.globalAlpha = 1;
  drawLine(context, layout.branch, COLOURS.branch);
  drawLine(context, merges.branch, COLOURS.branch, { arrow: 9 });
  drawLine(context, [...input, ...split], COLOURS.text);
  drawLine(context, next, COLOURS.text, { arrow: 10 });
  drawDisc(context, split, 4, COLOURS.text);
}

function drawInput(context: Context, [x, y]: Point) {
  drawDisc(context, [x, y], 22, COLOURS.identity);
  drawText(context, 'Input', x, y, { colour: COLOURS.ground, bold: true });
}

function drawSublayer(context: Context, { x, y, width, height }: Box) {
  context.fillStyle = COLOURS.ground; // so that the path does not show through
  context.fillRect(x, y, width, height);
  context.fillStyle = 'rgba(200,100,0,0.4)';
  context.fillRect(x, y, width, height);
  context.strokeStyle = COLOURS.branch;
  context.lineWidth = 2;
  context.strokeRect(x, y, width, height);
  const style = { colour: COLOURS.stable, size: 11 };
  drawText(context, 'Attention / FFN', x + width / 2, y + height / 2, style);
}

function drawPlus(context: Context, [x, y]: Point) {
  drawDisc(context, [x, y], 12, COLOURS.output);
  drawLine(context, [x - 7, y, x + 7, y], COLOURS.ground, { width: 3 });
  drawLine(context, [x, y - 7, x, y + 7], COLOURS.ground, { width: 3 });
}

function drawLabels(context: Context, { labels, titles }: Layout) {
  const write = (text: string, { at: [x, y], align, twoLines }: Label, style: TextStyle) =>
    (twoLines ? text.split(' ') : [text]).forEach((line, i) =>
      drawText(context, line, x, y + 16 * i, { align, ...style }),
    );
  const on = state.residual.value;
  const identity = { colour: on ? COLOURS.identity : COLOURS.faint, bold: true };
  write('Identity (Residual)', labels.identity, identity);
  const branch = { colour: COLOURS.branch, bold: true };
  const faint = { colour: COLOURS.faint, size: 11 };
  write(on ? 'the highway' : 'off: zeros', labels.highway, faint);
  write('Transformation', labels.transformation, branch);
  write('the diversion', labels.diversion, faint);
  write('to the norm', labels.next, faint);
  write(on ? 'x' : '0', titles.x, identity);
  write(branchName(), titles.branch, branch);
  write(sumName(), titles.sum, { colour: sumColour(), bold: true });
}

/** Draws lines across a chart, with their values to its left. */
export function drawScale(context: Context, chart: BarChart, ticks: number[]) {
  for (const tick of ticks) {
    const y = heightOf(chart, tick);
    drawAcross(context, chart.box, y, COLOURS.grid);
    const style: TextStyle = { align: 'right', colour: COLOURS.faint, size: 11 };
    drawText(context, roundNumber(tick), chart.box.x - 5, y, style);
  }
}
