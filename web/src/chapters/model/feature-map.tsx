// The size of each feature of the stream, layer by layer.

import { Figure } from '../../ui/figure';
import { Label } from '../../ui/marks';
import { exactNumber, shortNumber } from '../../ui/numbers';
import { DataTable } from '../../ui/table';
import { tint } from '../../ui/tint';
import { EDGE } from './plot';
import { ranked } from './words';

const ROW = 24;
const SIDE = 66; // of the map: its rows' names
const HEAD = 26;
const FOOT = 34;

/** The RMS of each feature, layer by layer, the largest at the end first. */
export function FeatureMap({ rows }: { rows: readonly number[][] }) {
  const order = ranked(rows.at(-1)!);
  const most = Math.max(...rows.flat());
  const last = rows.length - 1;
  const nameOf = (row: number) => (row === last ? 'the end' : `layer ${row}`);
  const title = 'RMS of each feature of the stream';
  return (
    <Figure
      name={`${title}: a row for what each layer reads, from below. The table that follows has the numbers.`}
      title={title}
      height={HEAD + ROW * rows.length + FOOT}
      draw={(width) => {
        const cell = (width - SIDE - EDGE) / order.length;
        const every = Math.ceil(20 / cell);
        return (
          <>
            {rows.map((row, l) => {
              const y = HEAD + ROW * (last - l);
              return (
                <g key={l}>
                  <Label at={[SIDE - 7, y + ROW / 2]} anchor="end" class="faint">
                    {nameOf(l)}
                  </Label>
                  {order.map((f, i) => (
                    <rect
                      key={f}
                      x={SIDE + i * cell}
                      y={y}
                      width={cell + 0.3}
                      height={ROW + 0.3}
                      style={{ fill: tint(row[f] / most, 1) }}
                    >
                      <title>{`${nameOf(l)}, feature ${f}: ${exactNumber(row[f])}`}</title>
                    </rect>
                  ))}
                </g>
              );
            })}
            {order.map(
              (f, i) =>
                i % every === 0 && (
                  <Label key={f} at={[SIDE + (i + 0.5) * cell, HEAD - 10]} class="faint">
                    {f}
                  </Label>
                ),
            )}
            <Label at={[SIDE - 16, HEAD - 10]} anchor="end" class="faint">
              feature
            </Label>
            <Scale x={SIDE} y={HEAD + ROW * rows.length + 20} most={most} />
          </>
        );
      }}
    >
      <DataTable
        caption={title}
        columns={['feature', ...order]}
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

/** What the colours of the map mean. */
function Scale({ x, y, most }: { x: number; y: number; most: number }) {
  const steps = Array.from({ length: 20 }, (_, i) => i / 19);
  return (
    <>
      <Label at={[x, y]} anchor="start" class="faint">
        0
      </Label>
      {steps.map((part, i) => (
        <rect
          key={i}
          x={x + 14 + 5 * i}
          y={y - 5}
          width={5.3}
          height={10}
          style={{ fill: tint(part, 1) }}
        />
      ))}
      <Label at={[x + 120, y]} anchor="start" class="faint">
        {shortNumber(most)}
      </Label>
    </>
  );
}
