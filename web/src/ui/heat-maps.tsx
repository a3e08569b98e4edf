// Matrices as heat maps on one scale of colour: side by side, or one above the other on a phone.

import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { t } from '../language/text';
import { Figure } from './figure';
import { EDGE } from './line-chart';
import { type Box, Label, LINE, Lines } from './marks';
import { roundNumber } from './numbers';
import { pointIn } from './pointer';
import { linesOf, textWidth } from './text-width';
import { tint } from './tint';

/** A matrix row by row, the first one on top. Rows may have different lengths; null is not finite. */
export interface HeatMap {
  name: string;
  rows: readonly (readonly (number | null)[])[];
}

interface HeatMapsProps {
  name: string;
  maps: readonly HeatMap[];
  value: string; // the meaning of the colours
  xLabel: string;
  yLabel: string;
  xNames?: readonly string[]; // of the columns; by default 0, 1, 2, …
  yNames?: readonly string[]; // of the rows
  children: ComponentChildren; // the same numbers as tables
}

const BESIDE = 560; // from this width on, maps are side by side
const GAP = 24; // between two maps
const LARGEST_CELL = 30;
const LEAST_EDGED = 7; // a smaller cell has no border

export function HeatMaps(props: HeatMapsProps) {
  const { name, children } = props;
  return (
    <Figure
      name={t`${name}. The table that follows has the numbers.`}
      title={name}
      height={(width) => layout(props, width).height}
      draw={(width) => {
        const drawn = { ...props, ...layout(props, width) };
        return (
          <>
            <Drawing {...drawn} />
            <Reading {...drawn} />
          </>
        );
      }}
    >
      {children}
    </Figure>
  );
}

function layout({ maps, value, yLabel, ...names }: HeatMapsProps, width: number) {
  const most = (counts: number[]) => Math.max(1, ...counts);
  const nameAll = (count: number, names: readonly string[] = []) =>
    Array.from({ length: count }, (_, i) => names[i] ?? String(i));
  const rows = nameAll(most(maps.map((map) => map.rows.length)), names.yNames);
  const columns = nameAll(
    most(maps.flatMap((map) => map.rows.map((row) => row.length))),
    names.xNames,
  );
  const beside = width >= BESIDE;
  const across = beside ? maps.length : 1;
  const each = (width - 2 * EDGE - GAP * (across - 1)) / across;
  const left = EDGE + Math.ceil(Math.max(...rows.map((name) => textWidth(name)))) + 8;
  const cell = Math.min(LARGEST_CELL, (each + EDGE - left) / columns.length);
  const valueLines = linesOf(value, width - 2 * EDGE);
  const yLines = linesOf(yLabel, width - 2 * EDGE);
  const legend = EDGE + LINE * valueLines.length + 2;
  const top = legend + 56 + LINE * yLines.length;
  const pitch = cell * rows.length + 50;
  const boxes = maps.map((map, i) => ({
    x: left + (beside ? i * (each + GAP) : 0),
    y: top + (beside ? 0 : i * pitch),
    width: cell * columns.length,
    height: cell * map.rows.length,
  }));
  const height = top + pitch * (beside ? 1 : maps.length) + 2;
  return { width, height, cell, legend, boxes, rows, columns, valueLines, yLines };
}

type Drawn = HeatMapsProps & ReturnType<typeof layout>;

function Drawing(props: Drawn) {
  const { maps, xLabel, height, cell, legend, boxes, valueLines, yLines } = props;
  const scale = scaleOf(maps);
  return (
    <>
      <Lines at={[EDGE, EDGE + 6]} lines={valueLines} />
      <Legend {...props} {...scale} />
      <Lines at={[EDGE, legend + 36]} lines={yLines} />
      {maps.map((map, i) => (
        <g key={map.name}>
          <Cells map={map} box={boxes[i]} cell={cell} most={scale.most} />
          <Names {...props} map={map} box={boxes[i]} />
        </g>
      ))}
      <Label at={[boxes[0].x, height - EDGE - 2]} anchor="start" class="faint">
        {xLabel}
      </Label>
    </>
  );
}

const LEVELS = 20; // of colour, on either side of 0

/** The largest magnitude, and whether there are negative values (beyond rounding) or broken ones. */
function scaleOf(maps: readonly HeatMap[]) {
  const values = maps.flatMap(({ rows }) => rows.flat());
  const numbers = values.filter((v) => v !== null);
  const most = numbers.reduce((largest, v) => Math.max(largest, Math.abs(v)), 0);
  return {
    most,
    hasNegative: numbers.some((v) => levelOf(v, most) < 0),
    hasBroken: values.length > numbers.length,
  };
}

const levelOf = (v: number, most: number) => (most > 0 ? Math.round((LEVELS * v) / most) : 0);
const fillOf = (level: number | null) => (level === null ? 'var(--broken)' : tint(level / LEVELS));

interface CellsProps {
  map: HeatMap;
  box: Box;
  cell: number;
  most: number;
}

/** The cells; all of one colour are one path, because there may be thousands. */
function Cells({ map, box, cell, most }: CellsProps) {
  const paths = new Map<number | null, string>();
  map.rows.forEach((row, r) =>
    row.forEach((v, c) => {
      const level = v === null ? null : levelOf(v, most);
      const corner = `M${(box.x + c * cell).toFixed(2)} ${(box.y + r * cell).toFixed(2)}`;
      const size = cell.toFixed(2);
      paths.set(level, `${paths.get(level) ?? ''}${corner}h${size}v${size}h-${size}Z`);
    }),
  );
  return (
    <g class={cell < LEAST_EDGED ? undefined : 'cells'}>
      {[...paths].map(([level, d]) => (
        <path key={String(level)} d={d} style={{ fill: fillOf(level) }} />
      ))}
    </g>
  );
}

/** The name of the map, and those of its rows and columns for which there is room. */
function Names({ map, box, cell, rows, columns }: Drawn & { map: HeatMap; box: Box }) {
  const widest = Math.max(...columns.map((name) => textWidth(name)));
  return (
    <>
      <Label at={[box.x, box.y - 13]} anchor="start" class="strong">
        {map.name}
      </Label>
      {spaced(map.rows.length, LINE / cell).map((r) => (
        <Label key={r} at={[box.x - 6, box.y + cell * (r + 0.5)]} anchor="end" class="faint">
          {rows[r]}
        </Label>
      ))}
      {spaced(columns.length, (widest + 6) / cell).map((c) => (
        <Label key={c} at={[box.x + cell * (c + 0.5), box.y + box.height + 11]} class="faint">
          {columns[c]}
        </Label>
      ))}
    </>
  );
}

/** Indices below `count` that are at least `pitch` apart, with the last one. */
function spaced(count: number, pitch: number): number[] {
  const every = Math.max(1, Math.ceil(pitch));
  const last = count - 1;
  const all = Array.from({ length: count }, (_, i) => i);
  return all.filter((i) => i === last || (i % every === 0 && last - i >= every));
}

const STRIP = 7;

function Legend(props: Drawn & ReturnType<typeof scaleOf>) {
  const { most, hasNegative, hasBroken, legend: top } = props;
  const first = hasNegative ? -LEVELS : 0;
  const levels = Array.from({ length: LEVELS - first + 1 }, (_, i) => first + i);
  const low = hasNegative ? roundNumber(-most, 3) : '0';
  const high = roundNumber(most, 3);
  const left = EDGE + textWidth(low) + 8;
  const right = left + STRIP * levels.length;
  const broken = right + 24 + textWidth(high);
  return (
    <>
      <Label at={[EDGE, top + 7]} anchor="start" class="faint">
        {low}
      </Label>
      {levels.map((level, i) => (
        <rect
          key={level}
          {...{ x: left + STRIP * i, y: top, width: STRIP, height: 14 }}
          style={{ fill: fillOf(level) }}
        />
      ))}
      <Label at={[right + 8, top + 7]} anchor="start" class="faint">
        {high}
      </Label>
      {hasBroken && (
        <>
          <rect {...{ x: broken, y: top, width: 14, height: 14 }} style={{ fill: fillOf(null) }} />
          <Label at={[broken + 20, top + 7]} anchor="start" class="faint">
            {t`not finite`}
          </Label>
        </>
      )}
    </>
  );
}

interface Place {
  map: number;
  row: number;
  column: number;
}

/** The value of the cell at the pointer. */
function Reading(props: Drawn) {
  const { maps, boxes, cell } = props;
  const [at, setAt] = useState<Place | null>(null);
  const read = (map: number) => (event: PointerEvent) => {
    const [x, y] = pointIn(event);
    const [column, row] = [(x - boxes[map].x) / cell, (y - boxes[map].y) / cell].map(Math.floor);
    setAt({ map, row, column });
  };
  const value = at && maps[at.map].rows[at.row]?.[at.column];
  return (
    <>
      {at && value !== undefined && <Note {...props} {...at} read={value} />}
      {boxes.map((box, i) => (
        <rect
          key={i}
          class="plot-pointer"
          {...box}
          onPointerDown={read(i)}
          onPointerMove={read(i)}
          onPointerLeave={() => setAt(null)}
        />
      ))}
    </>
  );
}

function Note(props: Drawn & Place & { read: number | null }) {
  const { boxes, cell, map, row, column, read, width, rows, columns } = props;
  const place = `${rows[row]} ← ${columns[column]}`;
  const text = read === null ? t`not finite` : roundNumber(read, 3);
  const wide = textWidth(place) + 10 + textWidth(text, 600) + 16;
  const [x, y] = [boxes[map].x + column * cell, boxes[map].y + row * cell];
  const left = Math.min(x + cell + 6, width - wide - 2);
  return (
    <g class="reading">
      <rect class="pointed" {...{ x, y, width: cell, height: cell }} />
      <g transform={`translate(${left} ${y - 30})`}>
        <rect class="note" width={wide} height={24} rx={4} />
        <Label at={[8, 12]} anchor="start" class="faint">
          {place}
        </Label>
        <Label at={[wide - 8, 12]} anchor="end" class="strong">
          {text}
        </Label>
      </g>
    </g>
  );
}
