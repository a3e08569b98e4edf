// Bar charts of a vector, and the handles to drag their bars.

import { tidy } from '../state/fields';
import type { Item } from '../state/store';
import { COLOURS } from './colours';
import { drawAcross, drawText, textWidth } from './draw';
import { type Box, type Context, placed, type Size } from './figure';
import { shortNumber } from './numbers';

export interface BarChart {
  box: Box; // where bars and labels go
  values: readonly number[];
  colour: string;
  range: number; // from −range to range; what goes beyond is clipped and marked
  zeroLine?: boolean;
  mean?: number; // a dashed line
  labels?: boolean; // the value at each bar; on unless there are many
}

const LABEL = 14; // pixels above and below the bars, for labels

/** The y coordinate of value v, in the figure's pixels. */
export function heightOf({ box, range }: BarChart, v: number): number {
  const part = Math.min(1, Math.max(-1, v / range));
  return box.y + box.height / 2 - part * (box.height / 2 - LABEL);
}

/** The part of the box that the bar has. */
function column({ box, values }: BarChart, i: number): Box {
  const width = box.width / values.length;
  return { ...box, x: box.x + i * width, width };
}

export function drawBars(context: Context, chart: BarChart): void {
  const { box, values, range } = chart;
  const zero = heightOf(chart, 0);
  values.forEach((v, i) => {
    const { x, width } = column(chart, i);
    const end = heightOf(chart, v);
    const gap = width > 6 ? width * 0.12 : 0;
    const inner = width - 2 * gap;
    context.fillStyle = chart.colour;
    context.fillRect(x + gap, Math.min(zero, end), inner, Math.max(1, Math.abs(end - zero)));
    if (Math.abs(v) > range) drawClip(context, x + width / 2, end, v > 0, inner);
  });
  if (chart.zeroLine) drawAcross(context, box, zero, COLOURS.zero);
  if (chart.mean !== undefined) {
    const style = { width: 1.5, dash: [5, 4] };
    drawAcross(context, box, heightOf(chart, chart.mean), COLOURS.mean, style);
  }
  if (chart.labels ?? values.length <= 12) drawLabels(context, chart);
}

/** Marks the end of a bar that extends beyond the chart. */
function drawClip(context: Context, x: number, y: number, up: boolean, width: number) {
  const step = up ? 1 : -1;
  context.fillStyle = COLOURS.ground;
  for (const at of [5, 9]) context.fillRect(x - width / 2, y + step * at - 1, width, 2);
  context.fillStyle = COLOURS.text;
  context.beginPath();
  context.moveTo(x, y - step * 1);
  context.lineTo(x - 4, y + step * 4);
  context.lineTo(x + 4, y + step * 4);
  context.fill();
}

/** All labels have one size: the largest at which the longest fits its column. */
function drawLabels(context: Context, chart: BarChart) {
  const texts = chart.values.map(shortNumber);
  const fit = 0.92 * column(chart, 0).width;
  const longest = Math.max(...texts.map((text) => textWidth(context, text, 11)));
  const size = Math.min(11, Math.max(7, (11 * fit) / longest));
  texts.forEach((text, i) => {
    const { x, width } = column(chart, i);
    const v = chart.values[i];
    const y = heightOf(chart, v) + (v < 0 ? LABEL / 2 + 1 : -LABEL / 2 - 1);
    drawText(context, text, x + width / 2, y, { size, halo: true });
  });
}

/** A range that shows all values, symmetric about zero, in round steps. */
export function symmetricRange(values: readonly number[], least = 1): number {
  const most = values.reduce((max, v) => Math.max(max, Math.abs(v)), least);
  const power = 10 ** Math.floor(Math.log10(most));
  return [1, 1.5, 2, 3, 5, 7.5, 10].map((m) => m * power).find((m) => m >= most * 0.999999) ?? most;
}

interface BarHandlesProps {
  size: Size; // of the figure
  chart: BarChart;
  /** What the bars show. */
  item: Item<readonly number[]>;
  /** "x" gives sliders named "x 1", "x 2", … */
  name: string;
  limit: number; // values go from −limit to limit
  step: number;
  /** The bars show the item's values times this factor. */
  factor?: number;
}

/** An overlay with which each bar can be dragged, or moved with the arrow keys. On a touch screen a
 * bar must be tapped first, so that a swipe over the chart scrolls the page. */
export function BarHandles(props: BarHandlesProps) {
  const { size, chart, item, name, limit, step, factor = 1 } = props;
  const set = (i: number, value: number) => {
    const stepped = tidy(Math.round(value / step) * step);
    const clamped = Math.min(limit, Math.max(-limit, stepped));
    if (clamped !== item.value[i]) item.value = item.value.map((v, j) => (j === i ? clamped : v));
  };
  const drag = (i: number) => (event: PointerEvent) => {
    const handle = event.currentTarget as HTMLElement;
    if (event.type === 'pointerdown') {
      const isSwipe = event.pointerType === 'touch' && document.activeElement !== handle;
      if (event.button !== 0 || isSwipe) return;
      handle.setPointerCapture(event.pointerId);
      handle.focus({ preventScroll: true });
      event.preventDefault();
    }
    if (!handle.hasPointerCapture(event.pointerId)) return;
    const { top, height } = handle.getBoundingClientRect();
    const above = (0.5 - (event.clientY - top) / height) * chart.box.height; // the zero line
    const part = above / (chart.box.height / 2 - LABEL);
    set(i, (part * chart.range) / factor);
  };
  const press = (i: number) => (event: KeyboardEvent) => {
    const value = item.value[i];
    const moves: Record<string, number> = {
      ArrowUp: value + step,
      ArrowRight: value + step,
      ArrowDown: value - step,
      ArrowLeft: value - step,
      PageUp: value + 10 * step,
      PageDown: value - 10 * step,
      Home: -limit,
      End: limit,
    };
    if (!(event.key in moves)) return;
    event.preventDefault();
    set(i, moves[event.key]);
  };
  return chart.values.map((_, i) => (
    <div
      key={i}
      class="bar-handle"
      role="slider"
      tabIndex={0}
      aria-label={`${name} ${i + 1}`}
      aria-orientation="vertical"
      aria-valuemin={-limit}
      aria-valuemax={limit}
      aria-valuenow={item.value[i]}
      aria-valuetext={factor === 1 ? undefined : `${item.value[i]}, times ${factor}`}
      style={placed(column(chart, i), size)}
      onClick={(event) => event.currentTarget.focus({ preventScroll: true })}
      onPointerDown={drag(i)}
      onPointerMove={drag(i)}
      onKeyDown={press(i)}
    />
  ));
}
