// The two heat maps of a batch, before and after a norm: their layout and their drawing.

import type { Kind } from 'addnorm';
import { COLOURS } from '../../ui/colours';
import { drawLine, drawText } from '../../ui/draw';
import type { Box, Context, Size } from '../../ui/figure';
import { fixedNumber, shortNumber } from '../../ui/numbers';
import { largest } from '../../ui/vectors';
import { type Batch, type Cell, featuresOf, setOf } from './sets';

type Colour = readonly [number, number, number];

// Blue and orange can be distinguished with every kind of colour vision; zero is dark.
const NEGATIVE: Colour = [77, 163, 255];
const ZERO: Colour = [27, 36, 54];
const POSITIVE: Colour = [255, 157, 61];
const GROUND = [1, 3, 5].map((i) => parseInt(COLOURS.ground.slice(i, i + 2), 16));
const UNLIT = 0.6;

const TITLE = 26;
const LABELS = 20;
const LEGEND = 34;
const GAP = 28; // between the maps

export interface Layout {
  size: Size;
  maps: readonly [Box, Box]; // the cells, without what is written around them
}

/** The layout in a figure of this width: the maps are side by side where the numbers then fit. */
export function layoutOf(width: number, batch: Batch): Layout {
  const narrow = width < 600;
  const margin = narrow ? 20 : 66;
  const beside = !narrow && featuresOf(batch) <= 8;
  const outer = beside ? (width - GAP) / 2 : width;
  const height = batch.samples * (narrow ? 30 : 36);
  const map = (left: number, top: number): Box => ({
    x: left + margin,
    y: top + TITLE + LABELS,
    width: outer - margin - 2,
    height,
  });
  const full = TITLE + LABELS + height + LEGEND;
  const maps = [map(0, 0), beside ? map(outer + GAP, 0) : map(0, full)] as const;
  return { size: { width, height: beside ? full : 2 * full }, maps };
}

/** The cell at a point of the figure; null outside the maps. */
export function cellAt({ maps }: Layout, batch: Batch, x: number, y: number): Cell | null {
  for (const box of maps) {
    const column = Math.floor(((x - box.x) / box.width) * featuresOf(batch));
    const row = Math.floor(((y - box.y) / box.height) * batch.samples);
    const inside = column >= 0 && column < featuresOf(batch) && row >= 0 && row < batch.samples;
    if (inside) return { row, column };
  }
  return null;
}

interface HeatMap {
  title: string;
  kind: Kind;
  batch: Batch;
  values: Float64Array;
  cell: Cell; // the set that it belongs to is lit
}

export function drawHeatMap(context: Context, box: Box, map: HeatMap): void {
  const most = largest(map.values) || 1;
  const lit = setOf(map.kind, map.batch, map.cell);
  drawLabels(context, box, map);
  forEachCell(map.batch, (cell, i) => {
    drawCell(context, cellBox(box, map.batch, cell), map.values[i], {
      most,
      lit: setOf(map.kind, map.batch, cell) === lit,
    });
  });
  drawContour(context, box, map, lit);
  drawChosen(context, cellBox(box, map.batch, map.cell));
  drawLegend(context, box, most);
}

function forEachCell(batch: Batch, visit: (cell: Cell, i: number) => void) {
  const features = featuresOf(batch);
  for (let i = 0; i < batch.samples * features; i++) {
    visit({ row: Math.floor(i / features), column: i % features }, i);
  }
}

function cellBox(box: Box, batch: Batch, { row, column }: Cell): Box {
  const width = box.width / featuresOf(batch);
  const height = box.height / batch.samples;
  return { x: box.x + column * width, y: box.y + row * height, width, height };
}

function drawLabels(context: Context, box: Box, { title, batch }: HeatMap) {
  const [top, labels] = [box.y - LABELS - TITLE / 2, box.y - LABELS / 2];
  const style = { size: 11, colour: COLOURS.faint } as const;
  drawText(context, title, box.x, top, { size: 14, align: 'left', bold: true });
  const span = box.width / batch.channels;
  const word = span >= 66 ? 'channel ' : span >= 36 ? 'ch ' : '';
  for (let c = 0; c < batch.channels; c++) {
    drawText(context, `${word}${c + 1}`, box.x + (c + 0.5) * span, labels, style);
  }
  const sample = box.x >= 60 ? 'sample ' : '';
  const height = box.height / batch.samples;
  for (let row = 0; row < batch.samples; row++) {
    const y = box.y + (row + 0.5) * height;
    drawText(context, `${sample}${row + 1}`, box.x - 7, y, { ...style, align: 'right' });
  }
}

function drawCell(context: Context, box: Box, v: number, { most = 1, lit = true }) {
  const colour = colourOf(v / most).map((c, i) => (lit ? c : UNLIT * c + (1 - UNLIT) * GROUND[i]));
  context.fillStyle = `rgb(${colour.map(Math.round)})`;
  context.fillRect(box.x + 0.5, box.y + 0.5, box.width - 1, box.height - 1);
  if (box.width < 30) return;
  const text = box.width >= 38 ? shortNumber(v) : fixedNumber(v, 1);
  const ink = luminance(colour) > 0.18 ? '#000' : '#fff';
  const style = { size: box.width >= 38 ? 12 : 10.5, colour: ink, bold: lit };
  drawText(context, text, box.x + box.width / 2, box.y + box.height / 2, style);
}

function colourOf(part: number): number[] {
  const end = part < 0 ? NEGATIVE : POSITIVE;
  const strength = Math.abs(part) ** 0.75; // so that small values still differ
  return end.map((c, i) => ZERO[i] + strength * (c - ZERO[i]));
}

/** The relative luminance of WCAG 2, which decides whether text on the colour is black or white. */
function luminance(colour: number[]): number {
  const [r, g, b] = colour.map((c) => {
    const part = c / 255;
    return part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

/** Draws a white line around the lit cells, since colour alone is not accessible. */
function drawContour(context: Context, box: Box, { kind, batch }: HeatMap, lit: number) {
  const isLit = (row: number, column: number) =>
    row >= 0 &&
    row < batch.samples &&
    column >= 0 &&
    column < featuresOf(batch) &&
    setOf(kind, batch, { row, column }) === lit;
  const line = (...points: number[]) => drawLine(context, points, COLOURS.mean);
  forEachCell(batch, (cell) => {
    const { row, column } = cell;
    if (!isLit(row, column)) return;
    const { x, y, width, height } = cellBox(box, batch, cell);
    if (!isLit(row - 1, column)) line(x, y, x + width, y);
    if (!isLit(row + 1, column)) line(x, y + height, x + width, y + height);
    if (!isLit(row, column - 1)) line(x, y, x, y + height);
    if (!isLit(row, column + 1)) line(x + width, y, x + width, y + height);
  });
}

function drawChosen(context: Context, { x, y, width, height }: Box) {
  const inset = width < 16 ? 1.5 : 3;
  context.strokeStyle = COLOURS.stable;
  context.lineWidth = width < 16 ? 2 : 3;
  context.strokeRect(x + inset, y + inset, width - 2 * inset, height - 2 * inset);
}

function drawLegend(context: Context, box: Box, most: number) {
  const y = box.y + box.height + 14;
  const width = 100;
  const x = box.x + 34;
  for (let i = 0; i < width; i++) {
    context.fillStyle = `rgb(${colourOf((2 * i) / width - 1).map(Math.round)})`;
    context.fillRect(x + i, y - 4, 1.5, 8);
  }
  const style = { size: 11, colour: COLOURS.faint } as const;
  drawText(context, shortNumber(-most), x - 6, y, { ...style, align: 'right' });
  drawText(context, shortNumber(most), x + width + 6, y, { ...style, align: 'left' });
}
