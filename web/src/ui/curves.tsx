// The marks of curves: lines, bands, and marks at single values.

import { area, line } from 'd3-shape';
import type { Scale } from './axes';
import type { Box } from './marks';

/** A value for each x; null: a gap, undefined: none. */
export type Values = readonly (number | null | undefined)[];

export interface Curve {
  name: string;
  colour: string;
  dash?: string;
  width?: number;
  dots?: boolean; // dots instead of a line
  values: Values;
  /** The edges of a band, which may be infinite. */
  band?: { low: Values; high: Values };
  /** The prediction of theory: a wide pale line, or a band with dotted edges, below other curves. */
  theory?: boolean;
  /** Marks a measurement: dots on a short line, a cross where the values end in null, a triangle
   * for each value that is 0 or less on a logarithmic axis. */
  marked?: boolean;
  unnamed?: boolean; // it has no name in the legend
  /** For each value, whether it is marked as failing. */
  failing?: readonly (boolean | undefined)[];
}

export interface Places {
  x: readonly number[];
  xScale: Scale;
  yScale: Scale;
  plot: Box;
}

interface CurveProps extends Places {
  curve: Curve;
}

const FAR = 50; // in heights of the plot; coordinates beyond are clamped

/** The y coordinate of a value. One that the scale cannot place is far below or above the plot. */
export function yOf({ yScale, plot }: Pick<Places, 'yScale' | 'plot'>, value: number): number {
  const far = FAR * plot.height;
  const at = yScale(value);
  const below = Number.isNaN(at) ? value <= yScale.domain()[0] : at > plot.y + far;
  if (Number.isNaN(at) || Math.abs(at - plot.y) > far) return plot.y + (below ? far : -far);
  return at;
}

const ALONE = 12; // pixels on either side of a prediction without neighbours

/** The points, of which one without neighbours becomes a short line. */
function widened<P extends readonly [x: number, ...unknown[]]>(
  points: readonly P[],
  isDefined: (point: P) => boolean,
): P[] {
  const has = (i: number) => i in points && isDefined(points[i]);
  const moved = ([x, ...rest]: P, by: number) => [x + by, ...rest] as unknown as P;
  return points.flatMap((point, i) =>
    has(i) && !has(i - 1) && !has(i + 1) ? [moved(point, -ALONE), moved(point, ALONE)] : [point],
  );
}

export function CurvePath({ curve, ...places }: CurveProps) {
  const { x, xScale, yScale } = places;
  const { values, colour, dash, width = 2, dots, theory } = curve;
  const points = values.flatMap((v, i) => (v === undefined ? [] : [[xScale(x[i]), v] as const]));
  if (dots) {
    return points.map(
      ([at, v]) =>
        v !== null && <circle key={at} cx={at} cy={yOf(places, v)} r={4} fill={colour} />,
    );
  }
  const isDefined = ([, v]: (typeof points)[number]) => v !== null && Number.isFinite(yScale(v));
  const path = line<(typeof points)[number]>()
    .defined(isDefined)
    .y(([, v]) => yOf(places, v!))
    .digits(1);
  return (
    <path
      class={theory ? 'line theory' : 'line'}
      d={path(theory ? widened(points, isDefined) : points) ?? ''}
      stroke={colour}
      stroke-width={theory ? 9 : width}
      stroke-dasharray={dash}
    />
  );
}

export function CurveBand({ curve, ...places }: CurveProps) {
  const { x, xScale } = places;
  const { low, high } = curve.band!;
  const points = x.flatMap((at, i) =>
    low[i] === undefined ? [] : [[xScale(at), low[i], high[i]] as const],
  );
  const isDefined = ([, from, to]: (typeof points)[number]) => from !== null && to !== null;
  const path = area<(typeof points)[number]>()
    .defined(isDefined)
    .y0(([, from]) => yOf(places, from!))
    .y1(([, , to]) => yOf(places, to!))
    .digits(1);
  return (
    <path
      class={curve.theory ? 'agreement' : 'spread'}
      d={path(widened(points, isDefined)) ?? ''}
      fill={curve.colour}
      stroke={curve.colour}
    />
  );
}

const MOST_DOTS = 24; // a longer line has no dots, and not every triangle

/** The marks of a measured curve that lie inside the plot. */
export function CurveMarks({ curve: { values, colour, failing }, ...places }: CurveProps) {
  const { x, xScale, yScale, plot } = places;
  const isLogarithmic = Number.isNaN(yScale(-1));
  const last = values.findLastIndex((v) => v != null);
  const breaks = values.slice(last + 1).includes(null) ? last : -1;
  const every = Math.ceil(values.length / MOST_DOTS);
  const floor = plot.y + plot.height;
  return values.map((v, i) => {
    if (v == null) return null;
    const isZero = isLogarithmic && v <= 0;
    const [left, top] = [xScale(x[i]), isZero ? floor - 6 : yOf(places, v)];
    const isInside = left >= plot.x - 1 && left <= plot.x + plot.width + 1;
    if (!isInside || top < plot.y - 1 || top > floor + 1) return null;
    const mark = { transform: `translate(${left.toFixed(1)} ${top.toFixed(1)})`, stroke: colour };
    if (failing?.[i]) return <circle key={i} {...mark} class="failing" r={7} />;
    if (i === breaks) return <path key={i} {...mark} class="cross" d="M-5 -5L5 5M-5 5L5 -5" />;
    if (isZero)
      return i % every === 0 && <path key={i} {...mark} class="hollow" d="M0 5L-4.6 -3.4H4.6Z" />;
    return every === 1 && <circle key={i} {...mark} class="dot" r={3.2} fill={colour} />;
  });
}
