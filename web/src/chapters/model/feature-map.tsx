// The size of each feature of the stream, layer by layer.

import { t } from '../../language/text';
import { Figure } from '../../ui/figure';
import { type Box, Label } from '../../ui/marks';
import { exactNumber, shortNumber } from '../../ui/numbers';
import { DataTable } from '../../ui/table';
import { tint } from '../../ui/tint';
import { EDGE } from './plot';
import { ranked } from './words';

const ROW = 21;
const SIDE = 88; // space for the row names
const HEAD = 26;
const FOOT = 34;
const LEAST_PITCH = 20; // the minimum distance of names side by side

interface FeatureMapProps {
  rows: readonly number[][]; // the RMS of each feature, layer by layer
}

export function FeatureMap({ rows }: FeatureMapProps) {
  const order = ranked(rows.at(-1)!); // by size at the end, the largest first
  const title = t`RMS of each feature of the stream`;
  const nameOf = (row: number) => (row === rows.length - 1 ? t`the end` : t`layer ${row}`);
  return (
    <Figure
      name={t`${title}: one row for the input of each layer, from the bottom up. The table that follows has the numbers.`}
      title={title}
      height={HEAD + ROW * rows.length + FOOT}
      draw={(width) => <Map rows={rows} order={order} nameOf={nameOf} width={width} />}
    >
      <DataTable
        caption={title}
        columns={[t`feature`, ...order]}
        rows={rows.map((row, l) => ({
          head: nameOf(l),
          cells: order.map((f) => row[f]),
          data: { layer: String(l) },
        }))}
        format={exactNumber}
      />
    </Figure>
  );
}

interface MapProps extends FeatureMapProps {
  order: readonly number[];
  nameOf(row: number): string;
  width: number;
}

function Map({ rows, order, nameOf, width }: MapProps) {
  const most = Math.max(...rows.flat());
  const cell = (width - SIDE - EDGE) / order.length;
  const top = (row: number) => HEAD + ROW * (rows.length - 1 - row);
  return (
    <>
      <FeatureNames order={order} cell={cell} />
      {rows.map((row, l) => (
        <g key={l}>
          <Label at={[SIDE - 7, top(l) + ROW / 2]} anchor="end" class="faint">
            {nameOf(l)}
          </Label>
          {order.map((f, i) => (
            <Cell
              key={f}
              box={{ x: SIDE + i * cell, y: top(l), width: cell, height: ROW }}
              part={row[f] / most}
              name={t`${nameOf(l)}, feature ${f}: ${exactNumber(row[f])}`}
            />
          ))}
        </g>
      ))}
      <Scale x={SIDE} y={top(0) + ROW + 20} most={most} />
    </>
  );
}

/** The names of as many features as fit. */
function FeatureNames({ order, cell }: { order: readonly number[]; cell: number }) {
  const every = Math.ceil(LEAST_PITCH / cell);
  return (
    <>
      <Label at={[4, HEAD - 10]} anchor="start" class="faint">
        {t`feature`}
      </Label>
      {order.map(
        (f, i) =>
          i % every === 0 && (
            <Label key={f} at={[SIDE + (i + 0.5) * cell, HEAD - 10]} class="faint">
              {f}
            </Label>
          ),
      )}
    </>
  );
}

/** A cell, slightly enlarged so that no seam shows. */
function Cell({ box, part, name }: { box: Box; part: number; name?: string }) {
  const [width, height] = [box.width + 0.3, box.height + 0.3];
  return (
    <rect {...box} width={width} height={height} style={{ fill: tint(part, 1) }}>
      {name && <title>{name}</title>}
    </rect>
  );
}

/** The colour scale of the map. */
function Scale({ x, y, most }: { x: number; y: number; most: number }) {
  const steps = Array.from({ length: 20 }, (_, i) => i / 19);
  return (
    <>
      <Label at={[x, y]} anchor="start" class="faint">
        0
      </Label>
      {steps.map((part, i) => (
        <Cell key={i} box={{ x: x + 14 + 5 * i, y: y - 5, width: 5, height: 10 }} part={part} />
      ))}
      <Label at={[x + 120, y]} anchor="start" class="faint">
        {shortNumber(most)}
      </Label>
    </>
  );
}
