// Curves over layers or steps, with the same numbers as a table.

import { scaleLinear, scaleLog } from 'd3-scale';
import type { ComponentChildren } from 'preact';
import { useMemo, useState } from 'preact/hooks';
import { t } from '../language/text';
import {
  linearDomain,
  linearTicks,
  logDomain,
  logTicks,
  type Scale,
  type Tick,
  valueTicks,
  XAxis,
  YAxis,
} from './axes';
import { Button } from './controls';
import { CurveNames, namesBeside, namesHeight } from './curve-names';
import { type Curve, CurveBand, CurveMarks, CurvePath } from './curves';
import { Figure } from './figure';
import { type Box, Label, LINE, Lines } from './marks';
import { plainNumber } from './numbers';
import { Reading } from './reading';
import { DataTable, numberOrBlank } from './table';
import { linesOf, textWidth } from './text-width';

export type { Curve };

interface LineChartProps {
  name: string;
  xLabel: string;
  yLabel: string;
  x?: readonly number[]; // by default 0, 1, 2, …
  curves: readonly Curve[];
  logarithmic?: boolean;
  /** A linear y axis shows at least this range. */
  atLeast?: readonly [number, number];
  xLogarithmic?: boolean;
  /** The ends of the axes; by default those of the values. */
  xRange?: Interval;
  yRange?: Interval;
  height?: number | ((width: number) => number);
  /** Tables that replace the one of all curves. */
  children?: ComponentChildren;
}

export const EDGE = 12; // the margin of the drawing
const MENU = 32; // the width of the save menu in the lower right corner

/** A part of the x axis. */
export type Interval = readonly [from: number, to: number];

export function LineChart(props: LineChartProps) {
  const { name, xLabel, curves, height = 280, children } = props;
  const length = Math.max(0, ...curves.map(({ values }) => values.length));
  const counted = useMemo(() => Array.from({ length }, (_, i) => i), [length]);
  const x = props.x ?? counted;
  const [zoom, setZoom] = useState<Interval | null>(null);
  const drawable = {
    ...props,
    x,
    curves: props.logarithmic ? curves.map(withoutZeros) : curves,
  };
  return (
    <div class="line-chart">
      <Figure
        name={t`${name}. The table that follows has the numbers.`}
        title={name}
        height={height}
        draw={(width) => {
          const size = { width, height: typeof height === 'number' ? height : height(width) };
          const drawn = layout(drawable, zoom, size);
          const { curves } = drawable;
          return (
            <>
              <Plot {...drawable} {...drawn} />
              <Reading {...drawn} {...{ x, curves }} label={xLabel} zoom={setZoom} />
            </>
          );
        }}
      >
        {children ?? (
          <DataTable
            caption={name}
            columns={[xLabel, ...x.map(plainNumber)]}
            rows={curves.map((curve) => ({
              head: curve.name,
              cells: curve.values,
              data: { curve: curve.name },
            }))}
            format={numberOrBlank}
          />
        )}
      </Figure>
      {zoom && <Button onClick={() => setZoom(null)}>{t`Show everything`}</Button>}
    </div>
  );
}

/** Replaces values of 0 or less by null, because a logarithmic axis cannot show them. */
function withoutZeros(curve: Curve): Curve {
  if (curve.marked) return curve; // its zeros have a mark
  return { ...curve, values: curve.values.map((v) => (v != null && v <= 0 ? null : v)) };
}

export interface Layout {
  plot: Box;
  xScale: Scale;
  yScale: Scale;
  beside: boolean; // the names are at the ends of the curves
  width: number; // of the drawing
}

type Drawn = LineChartProps & { x: readonly number[] };

const yLines = (label: string, width: number) => linesOf(label, width - 2 * EDGE);

function layout(
  props: Drawn,
  zoom: Interval | null,
  size: { width: number; height: number },
): Layout {
  const { x, xLogarithmic, xRange, yLabel } = props;
  const curves = named(props.curves);
  const right = namesBeside(curves, size);
  const label = 5 + LINE * yLines(yLabel, size.width).length;
  const top = EDGE + label + (right === null ? namesHeight(curves, size.width) : 0);
  const xScale = (xLogarithmic ? scaleLog() : scaleLinear()).domain(
    zoom ?? xRange ?? [x[0] ?? 0, x.at(-1) ?? 1],
  );
  const yScale = yScaleOf(props, xScale.domain() as [number, number]);
  const height = size.height - top - EDGE - 36;
  yScale.range([top + height, top]);
  const widest = Math.max(...yTicks(props, yScale).map(({ text }) => textWidth(text)));
  const left = EDGE + Math.ceil(widest) + 8;
  const plot = { x: left, y: top, width: size.width - left - (right ?? 0) - EDGE, height };
  xScale.range([plot.x, plot.x + plot.width]);
  return { plot, xScale, yScale, beside: right !== null, width: size.width };
}

export function named(curves: readonly Curve[]): Curve[] {
  return curves.filter(({ unnamed }) => !unnamed);
}

/** The reach of a logarithmic axis on either side of the median value. Larger and smaller values
 * are cut off, so that the other curves stay distinct. */
const REACH = 1e8;

/** The y axis for the values within the interval. */
function yScaleOf(props: Drawn, [from, to]: Interval): Scale {
  const { x, curves, logarithmic, atLeast, yRange } = props;
  if (yRange) return (logarithmic ? scaleLog() : scaleLinear()).domain(yRange);
  const shown = Float64Array.from(
    curves.flatMap(({ values }) =>
      values.filter((v, i): v is number => v != null && x[i] >= from && x[i] <= to),
    ),
  ).sort();
  let [min, max] = [shown.at(0) ?? Infinity, shown.at(-1) ?? -Infinity];
  if (logarithmic) {
    const middle = shown[shown.length >> 1];
    [min, max] = [Math.max(min, middle / REACH), Math.min(max, middle * REACH)];
    return scaleLog().domain(min <= max ? logDomain(min, max) : [0.1, 10]);
  }
  const [low, high] = atLeast ?? [Infinity, -Infinity];
  [min, max] = [Math.min(min, low), Math.max(max, high)];
  if (!(min <= max)) return scaleLinear();
  [min, max] = linearDomain(min, max);
  const room = 0.04 * (max - min);
  return scaleLinear().domain([min - (min < low ? room : 0), max + (max > high ? room : 0)]);
}

function yTicks({ logarithmic }: Drawn, scale: Scale): Tick[] {
  return logarithmic ? logTicks(scale) : linearTicks(scale, 6);
}

function xTicks({ x, xLogarithmic }: Drawn, scale: Scale, width: number): Tick[] {
  const [from, to] = scale.domain();
  const shown = x.filter((at) => at >= from && at <= to);
  const round = () =>
    xLogarithmic
      ? logTicks(scale, width / 50)
      : linearTicks(scale, width / 60, x.every(Number.isInteger));
  return valueTicks(scale, shown) ?? round();
}

function Plot(props: Drawn & Layout) {
  const { plot, xScale, yScale, x, curves, xLabel, yLabel, beside, width } = props;
  const foot = plot.y + plot.height + 31;
  const lines = yLines(yLabel, width);
  const places = { x, xScale, yScale, plot };
  const marked = curves.filter((curve) => curve.marked);
  return (
    <>
      <Lines at={[EDGE, plot.y - 16 - LINE * (lines.length - 1)]} lines={lines} />
      <Label at={[Math.min(plot.x + plot.width, width - MENU), foot]} anchor="end" class="faint">
        {xLabel}
      </Label>
      <YAxis plot={plot} scale={yScale} ticks={yTicks(props, yScale)} />
      <XAxis plot={plot} scale={xScale} ticks={xTicks(props, xScale, plot.width)} />
      <svg {...plot} viewBox={`${plot.x} ${plot.y} ${plot.width} ${plot.height}`} overflow="hidden">
        {curves.map((curve, i) => curve.band && <CurveBand key={i} curve={curve} {...places} />)}
        {[...curves.filter(({ theory }) => theory), ...curves.filter(({ theory }) => !theory)].map(
          (curve, i) => (
            <CurvePath key={i} curve={curve} {...places} />
          ),
        )}
      </svg>
      {marked.map((curve, i) => (
        <CurveMarks key={i} curve={curve} {...places} />
      ))}
      <CurveNames {...places} curves={named(curves)} beside={beside} />
    </>
  );
}
