// Curves over layers or steps, by uPlot, with the same numbers as a table.

import type { RefObject } from 'preact';
import { useEffect, useMemo, useRef } from 'preact/hooks';
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import { CURVE_COLOURS, type Themed } from './colours';
import { powerNumber, roundNumber } from './numbers';
import { DataTable, numberOrBlank } from './table';
import { isDark, themed } from './theme';

export interface Curve {
  name: string;
  colour: Themed;
  dash?: number[];
  width?: number;
  dots?: boolean; // and no line
  values: readonly (number | null | undefined)[]; // one for each x; null: a gap, undefined: none
}

interface LineChartProps {
  name: string;
  xLabel: string;
  yLabel: string;
  x?: readonly number[]; // 0, 1, 2, … unless given
  curves: readonly Curve[];
  logarithmic?: boolean;
  /** A linear y axis shows at least this range. */
  atLeast?: readonly [number, number];
  height?: number;
}

/** The distances between ticks of the x axis: layers and steps are whole numbers. */
const WHOLE = [0, 1, 2, 3, 4, 5, 6].flatMap((n) => [1, 2, 5].map((m) => m * 10 ** n));

export function LineChart(props: LineChartProps) {
  const { name, xLabel, curves } = props;
  const length = Math.max(0, ...curves.map(({ values }) => values.length));
  const counted = useMemo(() => Array.from({ length }, (_, i) => i), [length]);
  const x = props.x ?? counted;
  const box = usePlot({ ...props, x });
  return (
    <figure class="line-chart">
      <figcaption>{name}</figcaption>
      <div ref={box} role="img" aria-label={`${name}. The table that follows has the numbers.`} />
      <div class="numbers">
        <DataTable
          caption={name}
          columns={[xLabel, ...x]}
          rows={curves.map((curve) => ({
            head: curve.name,
            cells: curve.values,
            data: { curve: curve.name },
          }))}
          format={numberOrBlank}
        />
      </div>
    </figure>
  );
}

/** Keeps a plot in the element that the reference is given to. */
function usePlot(
  props: LineChartProps & { x: readonly number[] },
): RefObject<HTMLDivElement | null> {
  const { x, curves, height = 260 } = props;
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const data = [x, ...curves.map((c) => c.values)] as uPlot.AlignedData;
  const looks = JSON.stringify([
    isDark.value,
    height,
    props.yLabel,
    props.xLabel,
    props.logarithmic,
    props.atLeast,
    curves.map((c) => [c.name, c.colour, c.dash, c.width, c.dots]),
  ]);

  useEffect(() => {
    const element = box.current!; // the observer may outlive the ref
    const width = () => element.clientWidth;
    const made = new uPlot({ ...options(props), width: width(), height }, data, element);
    plot.current = made;
    const observer = new ResizeObserver(() => made.setSize({ width: width(), height }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      made.destroy();
    };
  }, [looks]);
  useEffect(() => showData(plot.current!, data), [x, curves]);
  return box;
}

/** Shows other values and keeps the reader's zoom. */
function showData(plot: uPlot, data: uPlot.AlignedData): void {
  const [x] = plot.data;
  const { min, max } = plot.scales.x;
  const isZoomed = min != null && max != null && (min > x[0] || max < x.at(-1)!);
  plot.setData(data, !isZoomed);
  if (isZoomed) plot.redraw();
}

function options(props: LineChartProps): Omit<uPlot.Options, 'width' | 'height'> {
  const grid = { stroke: themed(CURVE_COLOURS.grid), width: 1 };
  const axis = {
    stroke: themed(CURVE_COLOURS.text),
    grid,
    ticks: grid,
    font: '12px system-ui, sans-serif',
    labelFont: '12px system-ui, sans-serif',
  };
  return {
    scales: {
      x: { time: false },
      y: props.logarithmic
        ? { distr: 3, range: (_, min, max) => logRange(min, max) }
        : props.atLeast
          ? { range: softRange(props.atLeast) }
          : {},
    },
    axes: [
      { ...axis, label: props.xLabel, incrs: WHOLE },
      {
        ...axis,
        label: props.yLabel,
        size: 64,
        ...(props.logarithmic && {
          splits: (_: uPlot, __: number, min: number, max: number) => logTicks(min, max),
          filter: (_: uPlot, ticks: number[]) => ticks,
        }),
        values: (_, values) => values.map(props.logarithmic ? logLabel : linearLabel),
      },
    ],
    series: [
      { label: props.xLabel },
      ...props.curves.map((curve) => ({
        label: curve.name,
        stroke: themed(curve.colour),
        width: curve.width ?? 2,
        dash: curve.dash,
        ...(curve.dots && { paths: () => null }),
        points: { show: curve.dots ?? false, size: 8, fill: themed(curve.colour) },
        value: (_: uPlot, v: number | null) => (v == null ? '–' : roundNumber(v, 3)),
      })),
    ],
    legend: { markers: { dash: (_, i) => legendBorder(props.curves[i - 1]) } },
  };
}

function legendBorder({ dots, dash }: Curve): string {
  return dots ? 'dotted' : dashBorder(dash);
}

/** The border that looks most like a curve's dashes. */
export function dashBorder(dash?: number[]): string {
  if (dash === undefined) return 'solid';
  return dash[0] > dash[1] ? 'dashed' : 'dotted';
}

function softRange([low, high]: readonly [number, number]): uPlot.Range.Config {
  return { min: { soft: low, mode: 1, pad: 0.05 }, max: { soft: high, mode: 1, pad: 0.05 } };
}

// uPlot's own logarithmic scale ends at 1e-16, but gradients can be smaller.

/** The nearest numbers 1, 2, 5 · 10ⁿ below and above; `null` means that there are no values. */
function logRange(min: number | null, max: number | null): [number, number] {
  if (min === null || max === null) return [0.1, 10];
  const ticks = roundNumbers(min, max);
  const low = ticks.findLast((v) => v <= min) ?? min;
  const high = ticks.find((v) => v >= max && v > low) ?? max;
  return [low, high];
}

/** At most about ten of them; powers of ten where there are many. */
function logTicks(min: number, max: number): number[] {
  const decades = Math.log10(max / min);
  const all = roundNumbers(min, max).filter((v) => v >= min * 0.999 && v <= max * 1.001);
  if (decades < 3.5) return all;
  const every = Math.ceil(decades / 9);
  return all.filter((v) => {
    const power = Math.log10(v);
    return Math.abs(power - Math.round(power)) < 1e-6 && Math.round(power) % every === 0;
  });
}

function logLabel(v: number): string {
  return v >= 1e-3 && v < 1e5 ? String(v) : powerNumber(v, 0);
}

function linearLabel(v: number): string {
  return String(Number(v.toPrecision(6))).replaceAll('-', '−');
}

function roundNumbers(min: number, max: number): number[] {
  const [low, high] = [Math.floor(Math.log10(min)), Math.ceil(Math.log10(max))];
  const powers = Array.from({ length: high - low + 1 }, (_, i) => low + i);
  const most = Number(`1e${high + 1}`);
  return [...powers.flatMap((n) => [1, 2, 5].map((m) => Number(`${m}e${n}`))), most];
}
