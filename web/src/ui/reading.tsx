// The values of a chart at the pointer. A drag over the chart zooms in.

import { useState } from 'preact/hooks';
import { type Curve, yOf } from './curves';
import { type Interval, type Layout, named } from './line-chart';
import { Label, Line } from './marks';
import { grouped, roundNumber } from './numbers';
import { pointIn } from './pointer';
import { textWidth } from './text-width';

interface ReadingProps extends Layout {
  x: readonly number[];
  curves: readonly Curve[];
  label: string; // the label of the x axis
  zoom(to: Interval | null): void;
}

const LEAST_DRAG = 8; // in pixels; a shorter drag is a click

export function Reading(props: ReadingProps) {
  const { plot, xScale, x, zoom } = props;
  const [at, setAt] = useState<number | null>(null); // x of the pointer, in pixels
  const [from, setFrom] = useState<number | null>(null); // the start of a drag
  const place = (event: PointerEvent) => {
    return Math.min(plot.x + plot.width, Math.max(plot.x, pointIn(event)[0]));
  };
  const begin = (event: PointerEvent) => {
    setAt(place(event));
    if (event.pointerType !== 'mouse' || event.button !== 0) return;
    (event.currentTarget as Element).setPointerCapture(event.pointerId);
    setFrom(place(event));
    event.preventDefault();
  };
  const end = (event: PointerEvent) => {
    const to = place(event);
    if (from !== null && Math.abs(to - from) > LEAST_DRAG) {
      zoom([xScale.invert(Math.min(from, to)), xScale.invert(Math.max(from, to))]);
    }
    setFrom(null);
  };
  const isDrag = at !== null && from !== null && Math.abs(at - from) > LEAST_DRAG;
  return (
    <>
      {isDrag && (
        <rect class="selection" {...plot} x={Math.min(at, from)} width={Math.abs(at - from)} />
      )}
      {at !== null && x.length > 0 && <Values {...props} index={nearest(x.map(xScale), at)} />}
      <rect
        class="plot-pointer"
        {...plot}
        onPointerDown={begin}
        onPointerMove={(event) => setAt(place(event))}
        onPointerUp={end}
        onPointerCancel={() => setFrom(null)}
        onPointerLeave={() => setAt(null)}
        onDblClick={() => zoom(null)}
      />
    </>
  );
}

function nearest(x: readonly number[], value: number): number {
  const next = x.findIndex((v) => v >= value);
  if (next === -1) return x.length - 1;
  return next > 0 && value - x[next - 1] < x[next] - value ? next - 1 : next;
}

const LINE = 17;
const EDGE = 8;

/** The value, and the edges of the band around it if it has one: 0.25 (0.1 … 0.7). */
function written({ values, band, theory }: Curve, index: number): string {
  const value = roundNumber(values[index]!, 3);
  const edges = [band?.low[index], band?.high[index]];
  if (theory || !edges.every(Number.isFinite)) return value;
  return `${value} (${edges.map((edge) => roundNumber(edge!, 3)).join(' … ')})`;
}

function Values({
  plot,
  xScale,
  yScale,
  x,
  curves,
  label,
  index,
}: ReadingProps & { index: number }) {
  const at = xScale(x[index]);
  const shown = named(curves).filter(({ values }) => values[index] != null);
  const rows = shown.map((curve) => [curve.name, written(curve, index)] as const);
  const yInside = (value: number) =>
    Math.min(plot.y + plot.height, Math.max(plot.y, yOf({ yScale, plot }, value)));
  const isWhole = Number.isInteger(x[index]);
  const head = `${label} ${isWhole ? grouped(x[index]) : roundNumber(x[index], 3)}`;
  const wide = Math.max(textWidth(head), ...rows.map((row) => textWidth(row.join('  '), 600)));
  const box = { width: wide + 2 * EDGE, height: LINE * (rows.length + 1) + EDGE };
  const left = at + box.width + 14 > plot.x + plot.width ? at - box.width - 10 : at + 10;
  return (
    <g class="reading">
      <Line
        points={[
          [at, plot.y],
          [at, plot.y + plot.height],
        ]}
        width={1}
        class="zero"
      />
      {shown.map(({ name, colour, values }) => (
        <circle key={name} cx={at} cy={yInside(values[index]!)} r={4} fill={colour} />
      ))}
      <g transform={`translate(${Math.max(0, left)} ${plot.y + 4})`}>
        <rect class="note" {...box} rx={4} />
        <Label at={[EDGE, LINE / 2 + 4]} anchor="start" class="faint">
          {head}
        </Label>
        {rows.map(([name, value], i) => (
          <g key={name} transform={`translate(0 ${LINE * (i + 1.5) + 4})`}>
            <Label at={[EDGE, 0]} anchor="start" colour={shown[i].colour}>
              {name}
            </Label>
            <Label at={[box.width - EDGE, 0]} anchor="end" class="strong">
              {value}
            </Label>
          </g>
        ))}
      </g>
    </g>
  );
}
