// Curves over layers or steps, with the same numbers as a table.

import { scaleLinear, scaleLog } from 'd3-scale';
import { line } from 'd3-shape';
import { useMemo, useState } from 'preact/hooks';
import { t } from '../language/text';
import {
  linearDomain,
  linearTicks,
  logDomain,
  logTicks,
  type Scale,
  type Tick,
  XAxis,
  YAxis,
} from './axes';
import { Button } from './controls';
import { CurveNames, namesBeside, namesHeight } from './curve-names';
import { Figure } from './figure';
import { type Box, Label } from './marks';
import { Reading } from './reading';
import { DataTable, numberOrBlank } from './table';
import { textWidth } from './text-width';

export interface Curve {
  name: string;
  colour: string;
  dash?: string;
  width?: number;
  dots?: boolean; // dots instead of a line
  values: readonly (number | null | undefined)[]; // one for each x; null: a gap, undefined: none
}

interface LineChartProps {
  name: string;
  xLabel: string;
  yLabel: string;
  x?: readonly number[]; // by default 0, 1, 2, …
  curves: readonly Curve[];
  logarithmic?: boolean;
  /** A linear y axis shows at least this range. */
  atLeast?: readonly [number, number];
  height?: number;
}

export const EDGE = 12; // the margin of the drawing

/** A part of the x axis. */
export type Interval = readonly [from: number, to: number];

export function LineChart(props: LineChartProps) {
  const { name, xLabel, curves, height = 280 } = props;
  const length = Math.max(0, ...curves.map(({ values }) => values.length));
  const counted = useMemo(() => Array.from({ length }, (_, i) => i), [length]);
  const x = props.x ?? counted;
  const [zoom, setZoom] = useState<Interval | null>(null);
  const drawable = { ...props, x, curves: props.logarithmic ? curves.map(withoutZeros) : curves };
  return (
    <div class="line-chart">
      <Figure
        name={t`${name}. The table that follows has the numbers.`}
        title={name}
        height={height}
        draw={(width) => {
          const drawn = layout(drawable, zoom, { width, height });
          return (
            <>
              <Plot {...drawable} {...drawn} />
              <Reading {...drawn} x={x} curves={drawable.curves} label={xLabel} zoom={setZoom} />
            </>
          );
        }}
      >
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
      </Figure>
      {zoom && <Button onClick={() => setZoom(null)}>{t`Show everything`}</Button>}
    </div>
  );
}

/** Replaces values of 0 or less by null, because a logarithmic axis cannot show them. */
function withoutZeros(curve: Curve): Curve {
  return { ...curve, values: curve.values.map((v) => (v != null && v <= 0 ? null : v)) };
}

export interface Layout {
  plot: Box;
  xScale: Scale;
  yScale: Scale;
  beside: boolean; // the names are at the ends of the curves
}

type Drawn = LineChartProps & { x: readonly number[] };

function layout(
  props: Drawn,
  zoom: Interval | null,
  size: { width: number; height: number },
): Layout {
  const { x, curves } = props;
  const right = namesBeside(curves, size);
  const top = EDGE + 20 + (right === null ? namesHeight(curves, size.width) : 0);
  const xScale = scaleLinear().domain(zoom ?? [x[0] ?? 0, x.at(-1) ?? 1]);
  const yScale = yScaleOf(props, xScale.domain() as [number, number]);
  const height = size.height - top - EDGE - 36;
  yScale.range([top + height, top]);
  const widest = Math.max(...yTicks(props, yScale).map(({ text }) => textWidth(text)));
  const left = EDGE + Math.ceil(widest) + 8;
  const plot = { x: left, y: top, width: size.width - left - (right ?? 0) - EDGE, height };
  xScale.range([plot.x, plot.x + plot.width]);
  return { plot, xScale, yScale, beside: right !== null };
}

/** The reach of a logarithmic axis on either side of the median value. Larger and smaller values
 * are cut off, so that the other curves stay distinct. */
const REACH = 1e8;

/** The y axis for the values within the interval. */
function yScaleOf({ x, curves, logarithmic, atLeast }: Drawn, [from, to]: Interval): Scale {
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

function yTicks({ logarithmic }: LineChartProps, scale: Scale): Tick[] {
  return logarithmic ? logTicks(scale) : linearTicks(scale, 6);
}

function Plot(props: Drawn & Layout) {
  const { plot, xScale, yScale, x, curves, xLabel, yLabel, beside } = props;
  const foot = plot.y + plot.height + 31;
  return (
    <>
      <Label at={[EDGE, plot.y - 16]} anchor="start" class="faint">
        {yLabel}
      </Label>
      <Label at={[plot.x + plot.width, foot]} anchor="end" class="faint">
        {xLabel}
      </Label>
      <YAxis plot={plot} scale={yScale} ticks={yTicks(props, yScale)} />
      <XAxis plot={plot} scale={xScale} ticks={linearTicks(xScale, plot.width / 60, true)} />
      <svg {...plot} viewBox={`${plot.x} ${plot.y} ${plot.width} ${plot.height}`} overflow="hidden">
        {curves.map((curve) => (
          <CurvePath key={curve.name} curve={curve} x={x} xScale={xScale} yScale={yScale} />
        ))}
      </svg>
      <CurveNames {...{ curves, x, plot, xScale, yScale, beside }} />
    </>
  );
}

interface CurvePathProps extends Pick<Layout, 'xScale' | 'yScale'> {
  curve: Curve;
  x: readonly number[];
}

function CurvePath({ curve, x, xScale, yScale }: CurvePathProps) {
  const { values, colour, dash, width = 2, dots } = curve;
  const points = values.flatMap((v, i) => (v === undefined ? [] : [[x[i], v] as const]));
  if (dots) {
    return points.map(
      ([at, v]) =>
        v !== null && <circle key={at} cx={xScale(at)} cy={yScale(v)} r={4} fill={colour} />,
    );
  }
  const path = line<(typeof points)[number]>()
    .defined(([, v]) => v !== null)
    .x(([at]) => xScale(at))
    .y(([, v]) => yScale(v!))
    .digits(1);
  return (
    <path
      class="line"
      d={path(points) ?? ''}
      stroke={colour}
      stroke-width={width}
      stroke-dasharray={dash}
    />
  );
}
