// The attention weights as a heat map, and next to each row the change of that token's output.

import { t } from '../../language/text';
import { Figure } from '../../ui/figure';
import { type Box, Label, Line } from '../../ui/marks';
import { exactNumber, fixedNumber, roundNumber } from '../../ui/numbers';
import { DataTable } from '../../ui/table';
import { tint } from '../../ui/tint';
import type { Attention } from './mask';
import { TOKENS } from './state';

const ROW = 36;
const TOP = 52; // space for a title and column names
const WORDS = 62; // space for the number after a bar
const NARROW = 560;

interface Layout {
  map: Box;
  bars: Box;
  height: number;
}

/** The bars are beside the map if there is room, else below it. */
function layoutOf(width: number): Layout {
  const height = TOKENS * ROW;
  if (width < NARROW) {
    const left = 66;
    const map = { x: left, y: TOP, width: width - left - 6, height };
    const bars = { x: left, y: 2 * TOP + height + 14, width: width - left - WORDS, height };
    return { map, bars, height: bars.y + height + 10 };
  }
  const map = { x: 66, y: TOP, width: 0.52 * width, height };
  const x = map.x + map.width + 40;
  const bars = { x, y: TOP, width: width - x - WORDS, height };
  return { map, bars, height: TOP + height + 10 };
}

const tokenName = (i: number) => t`token ${i + 1}`;

interface MaskFigureProps {
  attention: Attention;
  replaced: number;
  masked: boolean;
  most: number; // the largest change, with or without the mask
}

export function MaskFigure(props: MaskFigureProps) {
  const { attention, masked } = props;
  const names = Array.from({ length: TOKENS }, (_, s) => tokenName(s));
  return (
    <Figure
      name={
        masked
          ? t`Attention weights with the causal mask, and the change of each output. The tables that
              follow have the numbers.`
          : t`Attention weights without the causal mask, and the change of each output. The tables that
              follow have the numbers.`
      }
      caption={t`Attention weights`}
      width={860}
      height={(width) => layoutOf(width).height}
      draw={(width) => <Drawing {...props} layout={layoutOf(width)} />}
    >
      <DataTable
        caption={t`Attention weights: one row for each reading token`}
        columns={[t`reads`, ...names]}
        rows={attention.weights.map((row, reader) => ({
          head: names[reader],
          cells: row,
          data: { weights: String(reader + 1) },
        }))}
        format={exactNumber}
      />
      <DataTable
        caption={t`RMS change of the outputs`}
        columns={['', ...names]}
        rows={[{ head: t`change`, cells: attention.changes, data: { vector: 'changes' } }]}
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
        {t`Attention weights`}
      </Label>
      {attention.weights.map((row, reader) => (
        <WeightRow
          key={reader}
          row={row}
          reader={reader}
          map={map}
          replaced={replaced}
          masked={masked}
        />
      ))}
      <Label at={[bars.x, bars.y - TOP + 12]} anchor="start" class="strong">
        {t`Change of the output`}
      </Label>
      <Label at={[bars.x, bars.y - 14]} anchor="start" class="faint">
        {t`token ${replaced + 1} is changed`}
      </Label>
      {attention.changes.map((change, reader) => (
        <ChangeBar
          key={reader}
          change={change}
          reader={reader}
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
  reader: number;
  map: Box;
  replaced: number;
  masked: boolean;
}

function WeightRow({ row, reader, map, replaced, masked }: WeightRowProps) {
  const width = map.width / TOKENS;
  const y = map.y + reader * ROW;
  return (
    <>
      <Label
        at={[map.x + (reader + 0.5) * width, map.y - 14]}
        class={reader === replaced ? 'strong' : 'faint'}
      >
        {width > 60 ? tokenName(reader) : reader + 1}
      </Label>
      <Name at={y + ROW / 2} x={map.x} reader={reader} />
      {row.map((weight, s) => {
        const x = map.x + s * width;
        const isHidden = masked && s > reader;
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

function Name({ at, x, reader }: { at: number; x: number; reader: number }) {
  return (
    <Label at={[x - 8, at]} anchor="end" class="faint">
      {tokenName(reader)}
    </Label>
  );
}

interface ChangeBarProps {
  change: number;
  reader: number;
  box: Box;
  part: number; // relative to the longest bar
  named: boolean;
}

function ChangeBar({ change, reader, box, part, named }: ChangeBarProps) {
  const y = box.y + (reader + 0.5) * ROW;
  const end = box.x + part * box.width;
  return (
    <>
      {named && <Name at={y} x={box.x} reader={reader} />}
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
