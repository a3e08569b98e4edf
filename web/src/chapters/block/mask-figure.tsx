// The attention weights as a heat map, and in line with its rows how far each output changes.

import { Figure } from '../../ui/figure';
import { type Box, Label, Line } from '../../ui/marks';
import { exactNumber, fixedNumber, roundNumber } from '../../ui/numbers';
import { DataTable } from '../../ui/table';
import { tint } from '../../ui/tint';
import type { Attention } from './mask';
import { TOKENS } from './state';

const ROW = 36;
const TOP = 52; // a title, and names of columns
const WORDS = 62; // for the number behind a bar
const NARROW = 560;

interface Layout {
  map: Box;
  bars: Box;
  height: number;
}

/** Beside each other where there is room, else the bars below the map. */
function layoutOf(width: number): Layout {
  const height = TOKENS * ROW;
  if (width < NARROW) {
    const left = 66;
    const map = { x: left, y: TOP, width: width - left - 6, height };
    const bars = { x: left, y: 2 * TOP + height, width: width - left - WORDS, height };
    return { map, bars, height: bars.y + height + 10 };
  }
  const map = { x: 66, y: TOP, width: 0.52 * width, height };
  const x = map.x + map.width + 40;
  const bars = { x, y: TOP, width: width - x - WORDS, height };
  return { map, bars, height: TOP + height + 10 };
}

interface MaskFigureProps {
  attention: Attention;
  replaced: number;
  masked: boolean;
  most: number; // the largest change, with the mask and without
}

export function MaskFigure(props: MaskFigureProps) {
  const { attention, masked } = props;
  const names = Array.from({ length: TOKENS }, (_, s) => `token ${s + 1}`);
  return (
    <Figure
      name={`Attention weights ${masked ? 'with' : 'without'} the causal mask, and the change of each output. The tables that follow have the numbers.`}
      caption="Attention weights"
      width={860}
      height={(width) => layoutOf(width).height}
      draw={(width) => <Drawing {...props} layout={layoutOf(width)} />}
    >
      <DataTable
        caption="Attention weights: each row is a token that reads"
        columns={['reads', ...names]}
        rows={attention.weights.map((row, t) => ({
          head: names[t],
          cells: row,
          data: { weights: String(t + 1) },
        }))}
        format={exactNumber}
      />
      <DataTable
        caption="RMS change of the outputs"
        columns={['', ...names]}
        rows={[{ head: 'change', cells: attention.changes, data: { vector: 'changes' } }]}
        format={exactNumber}
      />
    </Figure>
  );
}

function Drawing({
  attention,
  replaced,
  masked,
  most,
  layout,
}: MaskFigureProps & { layout: Layout }) {
  const { map, bars } = layout;
  return (
    <>
      <Label at={[map.x, 12]} anchor="start" class="strong">
        Attention weights
      </Label>
      {attention.weights.map((row, t) => (
        <WeightRow key={t} row={row} t={t} map={map} replaced={replaced} masked={masked} />
      ))}
      <Label at={[bars.x, bars.y - TOP + 12]} anchor="start" class="strong">
        Change of the output
      </Label>
      <Label at={[bars.x, bars.y - 14]} anchor="start" class="faint">
        token {replaced + 1} has other values
      </Label>
      {attention.changes.map((change, t) => (
        <ChangeBar
          key={t}
          change={change}
          t={t}
          box={bars}
          part={change / most}
          named={bars.y > TOP}
        />
      ))}
    </>
  );
}

interface WeightRowProps {
  row: readonly number[];
  t: number;
  map: Box;
  replaced: number;
  masked: boolean;
}

function WeightRow({ row, t, map, replaced, masked }: WeightRowProps) {
  const width = map.width / TOKENS;
  const y = map.y + t * ROW;
  return (
    <>
      <Label
        at={[map.x + (t + 0.5) * width, map.y - 14]}
        class={t === replaced ? 'strong' : 'faint'}
      >
        {width > 60 ? `token ${t + 1}` : t + 1}
      </Label>
      <Name at={y + ROW / 2} x={map.x} t={t} />
      {row.map((weight, s) => {
        const x = map.x + s * width;
        const isHidden = masked && s > t;
        return (
          <g key={s} class={isHidden ? 'block-hidden' : 'block-weight'}>
            <rect
              x={x}
              y={y}
              width={width}
              height={ROW}
              style={isHidden ? undefined : { fill: tint(weight) }}
            >
              <title>{exactNumber(weight)}</title>
            </rect>
            <Label at={[x + width / 2, y + ROW / 2]}>
              {weight === 0 ? '0' : fixedNumber(weight, 2)}
            </Label>
          </g>
        );
      })}
    </>
  );
}

function Name({ at, x, t }: { at: number; x: number; t: number }) {
  return (
    <Label at={[x - 8, at]} anchor="end" class="faint">
      {`token ${t + 1}`}
    </Label>
  );
}

interface ChangeBarProps {
  change: number;
  t: number;
  box: Box;
  part: number; // of the longest
  named: boolean;
}

function ChangeBar({ change, t, box, part, named }: ChangeBarProps) {
  const y = box.y + (t + 0.5) * ROW;
  const end = box.x + part * box.width;
  return (
    <>
      {named && <Name at={y} x={box.x} t={t} />}
      <Line
        points={[
          [box.x, y - ROW / 2],
          [box.x, y + ROW / 2],
        ]}
        width={1}
        class="zero"
      />
      <rect x={box.x} y={y - 9} width={end - box.x} height={18} fill="var(--output)">
        <title>{exactNumber(change)}</title>
      </rect>
      <Label at={[end + 7, y]} anchor="start" class={change === 0 ? 'strong' : ''}>
        {roundNumber(change, 3)}
      </Label>
    </>
  );
}
