// The figures of chapter 2: a bar chart for each step, and the distribution before and after.

import { useMemo, useRef, useState } from 'preact/hooks';
import { type BarChart, BarHandles, drawBars, heightOf, symmetricRange } from '../../ui/bars';
import { COLOURS } from '../../ui/colours';
import { drawAcross, drawDisc, drawLine, drawText } from '../../ui/draw';
import { type Context, Figure, type FigureProps, type Size } from '../../ui/figure';
import { roundNumber, shortNumber } from '../../ui/numbers';
import { DataTable, type VectorRow } from '../../ui/table';
import { histogram, HISTOGRAM_FROM, type Interval, intervalOf, ticks } from './distribution';
import { state } from './state';
import type { Measured } from './steps';

const SIZE: Size = { width: 440, height: 200 };
const NARROW: Size = { width: 300, height: 180 };
const TARGET = 24; // pixels that a finger needs
const NOT_A_NUMBER = 'NaN: 0 ÷ 0';

interface StepChartProps {
  name: string;
  row: VectorRow;
  colour: string;
  range: number;
  mean?: number;
  spread?: number; // dotted lines at ± this
  overlay?: FigureProps['overlay'];
  rows?: VectorRow[]; // of the table, unless it has the drawn one alone
}

function chartOf(size: Size, { row: { values }, colour, range, mean }: StepChartProps): BarChart {
  const box = { x: 6, y: 6, width: size.width - 12, height: size.height - 12 };
  const labels = size.width / values.length >= 32;
  return { box, values, colour, range, zeroLine: true, mean, labels };
}

function drawStep(context: Context, size: Size, props: StepChartProps) {
  if (props.row.values.some(Number.isNaN)) {
    drawText(context, NOT_A_NUMBER, size.width / 2, size.height / 2, { size: 14 });
    return;
  }
  const chart = chartOf(size, props);
  drawBars(context, chart);
  if (props.spread === undefined) return;
  for (const v of [props.spread, -props.spread]) {
    const style = { width: 1.5, dash: [2, 4] };
    drawAcross(context, chart.box, heightOf(chart, v), COLOURS.faint, style);
  }
}

/** Drawn again only when its own numbers change. */
export function StepChart(props: StepChartProps) {
  const { name, row, range, mean, spread, overlay, rows = [row] } = props;
  return useMemo(
    () => (
      <Figure
        name={name}
        size={SIZE}
        narrow={NARROW}
        draw={(context, size) => drawStep(context, size, props)}
        overlay={overlay}
        rows={rows}
      />
    ),
    [name, row.values, range, mean, spread],
  );
}

/** The reader's own values: each bar can be dragged while they are few. */
export function InputChart({ x, mean }: { x: readonly number[]; mean?: number }) {
  const fits = (size: Size) => (size.width - 12) / x.length >= TARGET;
  const room = fits(SIZE) ? 1.25 : 1; // above the largest bar, to drag it to
  const fitting = symmetricRange(
    x.map((v) => room * v),
    leastRange(x),
  );
  const held = useRef(fitting);
  const [dragged, setDragged] = useState(false);
  // The scale is fixed while a bar is dragged; otherwise the bar would move away from the pointer.
  if (!dragged) held.current = fitting;
  const range = held.current;
  const row = { name: 'x', id: 'x', values: x };
  const chart = { name: 'The values', row, colour: COLOURS.identity, range, mean };
  const handles = (size: Size) =>
    fits(size) && (
      <BarHandles
        size={size}
        chart={chartOf(size, chart)}
        item={state.x}
        name="value"
        limit={range}
        step={10 ** Math.floor(Math.log10(range / 50))}
      />
    );
  return (
    <div
      onGotPointerCapture={() => setDragged(true)}
      onLostPointerCapture={() => setDragged(false)}
    >
      <StepChart
        {...chart}
        overlay={handles}
        rows={[row, { name: 's = x: no branch here', id: 'sum', values: x }]}
      />
    </div>
  );
}

/** Small values fill their chart as large ones do; only zeros need a minimum range. */
export function leastRange(values: readonly number[]): number {
  return values.some((v) => v !== 0) ? Number.MIN_VALUE : 1;
}

export interface Place {
  name: string;
  id: string;
  values: readonly number[];
  colour: string;
  measured: Measured;
}

const ROW = 96;
const PLOT = 52; // of a row: above its axis, below its name
const BINS = 32;

/** x, x̂ and the output on number lines; the last two on the same one. */
export function Distribution({ places }: { places: Place[] }) {
  const [before, ...after] = places;
  const shared = intervalOf(
    after.flatMap((p) => p.values),
    { low: -2, high: 2 },
  );
  const intervals = [intervalOf(before.values), ...after.map(() => shared)];
  const many = before.values.length >= HISTOGRAM_FROM;
  const height = ROW * places.length + 10;
  const draw = (context: Context, size: Size) =>
    places.forEach((place, i) => {
      const strip = { x: 14, y: ROW * i, width: size.width - 28, interval: intervals[i] };
      drawPlace(context, strip, place, many);
    });
  const name = many
    ? 'Histograms before and after'
    : 'The values on number lines, before and after';
  return (
    <Figure
      name={name}
      size={{ width: 900, height }}
      narrow={{ width: 320, height }}
      draw={draw}
      rows={many ? undefined : places}
    >
      {many &&
        places.map((place, i) => (
          <HistogramTable key={place.id} place={place} interval={intervals[i]} />
        ))}
    </Figure>
  );
}

interface Strip {
  x: number;
  y: number;
  width: number;
  interval: Interval; // from the left end to the right one
}

function drawPlace(context: Context, strip: Strip, place: Place, many: boolean) {
  const { x, y, width, interval } = strip;
  const { values, colour, measured, name } = place;
  const floor = y + ROW - 20;
  const at = (v: number) => x + ((v - interval.low) / (interval.high - interval.low)) * width;
  const mean = Math.abs(measured.mean) < 1e-9 * measured.rms ? 0 : measured.mean; // rounding
  const sums = `mean ${roundNumber(mean, 3)}, deviation ${roundNumber(measured.deviation, 3)}`;
  drawText(context, `${name}: ${sums}`, x, y + 14, { align: 'left', colour: COLOURS.faint });
  if (values.some(Number.isNaN)) {
    drawText(context, NOT_A_NUMBER, x + width / 2, floor - PLOT / 2, { size: 14 });
    return;
  }
  const clamped = (v: number) => Math.min(x + width, Math.max(x, at(v)));
  const [left, right] = [-1, 1].map((s) => clamped(measured.mean + s * measured.deviation));
  context.fillStyle = COLOURS.grid;
  context.fillRect(left, floor - PLOT, right - left, PLOT);
  if (many) drawHistogram(context, strip, floor, place);
  else drawDots(context, floor, colour, values.map(at));
  const centre = clamped(measured.mean);
  const line = [centre, floor - PLOT, centre, floor];
  drawLine(context, line, COLOURS.mean, { width: 1.5, dash: [5, 4] });
  drawAcross(context, strip, floor, COLOURS.zero);
  for (const v of ticks(interval, width > 500 ? 8 : 4)) {
    drawLine(context, [at(v), floor, at(v), floor + 4], COLOURS.zero, { width: 1 });
    drawText(context, shortNumber(v), at(v), floor + 12, { size: 10, colour: COLOURS.faint });
  }
}

function drawHistogram(context: Context, strip: Strip, floor: number, { values, colour }: Place) {
  const counts = histogram(values, strip.interval, BINS);
  const width = strip.width / BINS;
  const most = Math.max(...counts);
  context.fillStyle = colour;
  counts.forEach((count, i) => {
    const height = (count / most) * PLOT;
    context.fillRect(strip.x + i * width + 0.5, floor - height, width - 1, height);
  });
}

/** Dots that would hide each other are stacked, closer where they are many. */
function drawDots(context: Context, floor: number, colour: string, places: number[]) {
  const radius = 5;
  const stacks = new Map<number, number[]>();
  for (const x of places) {
    const slot = Math.round(x / (2 * radius));
    stacks.set(slot, [...(stacks.get(slot) ?? []), x]);
  }
  for (const stack of stacks.values()) {
    const rise = Math.min(2 * radius, (PLOT - 2 * radius) / (stack.length - 1));
    stack.forEach((x, i) => {
      drawDisc(context, [x, floor - radius - (i && i * rise)], radius, colour);
    });
  }
}

function HistogramTable({ place, interval }: { place: Place; interval: Interval }) {
  const width = (interval.high - interval.low) / BINS;
  const counts = histogram(place.values, interval, BINS);
  return (
    <DataTable
      caption={`Histogram of ${place.name}`}
      columns={['from', ...counts.map((_, i) => shortNumber(interval.low + i * width))]}
      rows={[{ head: 'values', cells: counts }]}
    />
  );
}
