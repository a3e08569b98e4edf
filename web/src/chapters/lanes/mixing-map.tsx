// The depth-mixing matrix as a heat map: the weights with which each sublayer reads
// x and the sublayers before it.

import { useMemo, useState } from 'preact/hooks';
import type { Mixing } from '../../kernels/lanes';
import { t } from '../../language/text';
import { assign } from '../../state/store';
import { Figure } from '../../ui/figure';
import { type Box, Label } from '../../ui/marks';
import { exactNumber, fixedNumber } from '../../ui/numbers';
import { pointIn } from '../../ui/pointer';
import { DataTable, numberOrBlank } from '../../ui/table';
import { textWidth } from '../../ui/text-width';
import { largest } from '../../ui/vectors';
import { tint } from '../../ui/tint';
import { state } from './state';
import { cellWords, readerName, sourceName } from './words';

interface Cell {
  reader: number; // a row: a sublayer, or the exit as the last one
  source: number; // a column: 0 is x
}

export function MixingMap({ mixing, title }: { mixing: Mixing; title: string }) {
  const [pointed, setPointed] = useState<Cell | null>(null);
  const cell = within(mixing, pointed ?? chosenCell());
  const words = cellWords(mixing, cell.reader, cell.source);
  const table = useMemo(() => <Table mixing={mixing} title={title} />, [mixing, title]);
  return (
    <div class="lanes-mixing">
      <Figure
        name={t`${title}: what each sublayer reads of the sublayers before it. The table that follows has the numbers.`}
        title={title}
        width={760}
        height={(width) => layoutOf(width, mixing).height}
        draw={(width) => <Drawing mixing={mixing} cell={cell} box={layoutOf(width, mixing).map} />}
        handles={(width) => (
          <Cells mixing={mixing} cell={cell} words={words} width={width} point={setPointed} />
        )}
      >
        {table}
      </Figure>
      <p class="lanes-words" data-words="cell">
        {words}
      </p>
    </div>
  );
}

function Table({ mixing, title }: { mixing: Mixing; title: string }) {
  return (
    <DataTable
      caption={t`${title}: M`}
      columns={[t`reads`, ...mixing.map((_, j) => sourceName(j))]}
      rows={mixing.map((row, l) => ({
        head: readerName(mixing, l),
        cells: row.map((v, j) => (j <= l ? v : null)),
        data: { mixing: String(l + 1) },
      }))}
      format={numberOrBlank}
    />
  );
}

function chosenCell(): Cell {
  return { reader: state.reader.value - 1, source: state.source.value };
}

function within(mixing: Mixing, { reader, source }: Cell): Cell {
  const row = Math.max(0, Math.min(reader, mixing.length - 1));
  return { reader: row, source: Math.max(0, Math.min(source, row)) };
}

const TOP = 48;
const FOOT = 14;
const LEAST_PITCH = 17; // the minimum distance of names side by side

interface Layout {
  map: Box;
  height: number;
}

function layoutOf(width: number, mixing: Mixing): Layout {
  const left = width < 560 ? 40 : 92;
  const side = Math.floor(Math.min(46, (width - left - 6) / mixing.length)) * mixing.length;
  const height = width < 560 ? side : Math.min(side, 30 * mixing.length);
  return { map: { x: left, y: TOP, width: side, height }, height: TOP + height + FOOT };
}

interface DrawingProps {
  mixing: Mixing;
  cell: Cell;
  box: Box;
}

function Drawing({ mixing, cell, box }: DrawingProps) {
  const width = box.width / mixing.length;
  const height = box.height / mixing.length;
  const at = (reader: number, source: number) => ({
    x: box.x + source * width,
    y: box.y + reader * height,
    width,
    height,
  });
  const cells = useMemo(
    () =>
      mixing.map((row, l) => <RowCells key={l} row={row.slice(0, l + 1)} at={(j) => at(l, j)} />),
    [mixing, width, height, box.x],
  );
  const every = Math.ceil(LEAST_PITCH / Math.min(width, height));
  const isNamed = (i: number) => i === 0 || i === mixing.length || i % every === 0;
  const wide = box.x > 60;
  return (
    <>
      <Label at={[box.x, 12]} anchor="start" class="faint">
        {t`what is read: x, and sublayers`}
      </Label>
      {mixing.map((_, j) => (
        <Label
          key={j}
          at={[box.x + (j + 0.5) * width, TOP - 12]}
          class={j === cell.source ? 'strong' : 'faint'}
        >
          {isNamed(j) && (j === 0 ? 'x' : j)}
        </Label>
      ))}
      {mixing.map((_, l) => (
        <g key={l}>
          <Label
            at={[box.x - 7, box.y + (l + 0.5) * height]}
            anchor="end"
            class={l === cell.reader ? 'strong' : 'faint'}
          >
            {l + 1 === mixing.length
              ? t`exit`
              : isNamed(l + 1) && (wide ? t`sublayer ${l + 1}` : l + 1)}
          </Label>
        </g>
      ))}
      {cells}
      <rect class="lanes-chosen" {...at(cell.reader, cell.source)} />
    </>
  );
}

/** A row of cells. Colours are relative to the row's largest value, because a
 * norm follows that ignores scale. */
function RowCells({ row, at }: { row: (number | null)[]; at(source: number): Box }) {
  const most = largest(row.map((v) => v ?? 0)) || 1;
  const texts = row.map((v) => (v === null ? '' : fixedNumber(v, Math.abs(v) < 9.95 ? 2 : 1)));
  const place = at(0);
  const fits = place.height >= 18 && Math.max(...texts.map((t) => textWidth(t))) < place.width - 3;
  return row.map((v, j) => {
    const box = at(j);
    return (
      <g key={j} class="lanes-cell">
        <rect {...box} style={{ fill: tint((v ?? 0) / most, 1.3) }}>
          <title>{numberOrBlank(v)}</title>
        </rect>
        {fits && <Label at={[box.x + box.width / 2, box.y + box.height / 2]}>{texts[j]}</Label>}
      </g>
    );
  });
}

interface CellsProps {
  mixing: Mixing;
  cell: Cell;
  words: string;
  width: number;
  point(cell: Cell | null): void;
}

/** A slider over the cells, for the keyboard, pointers and screen readers. */
function Cells({ mixing, cell, words, width, point }: CellsProps) {
  const { map } = layoutOf(width, mixing);
  const choose = (to: Cell) => {
    const { reader, source } = within(mixing, to);
    point(null);
    assign(state, { reader: reader + 1, source });
  };
  const at = (event: MouseEvent): Cell => {
    const [x, y] = pointIn(event);
    const part = (position: number, from: number, length: number) =>
      Math.floor(((position - from) / length) * mixing.length);
    return {
      reader: part(y, map.y, map.height),
      source: part(x, map.x, map.width),
    };
  };
  const press = (event: KeyboardEvent) => {
    const { reader, source } = cell;
    const moves: Record<string, Cell> = {
      ArrowUp: { reader: Math.max(reader - 1, source), source },
      ArrowDown: { reader: reader + 1, source },
      ArrowLeft: { reader, source: source - 1 },
      ArrowRight: { reader, source: source + 1 },
      Home: { reader, source: 0 },
      End: { reader, source: reader },
    };
    if (!(event.key in moves)) return;
    event.preventDefault();
    choose(moves[event.key]);
  };
  const { length } = mixing;
  return (
    <rect
      class="lanes-cells"
      {...map}
      role="slider"
      tabindex={0}
      aria-label={t`Cell of M`}
      aria-valuemin={1}
      aria-valuemax={(length * (length + 1)) / 2}
      aria-valuenow={(cell.reader * (cell.reader + 1)) / 2 + cell.source + 1}
      aria-valuetext={words}
      onKeyDown={press}
      onPointerMove={(event) => event.pointerType === 'mouse' && point(at(event))}
      onPointerLeave={() => point(null)}
      onClick={(event) => choose(at(event))}
    >
      <title>{exactNumber(mixing[cell.reader][cell.source] ?? NaN)}</title>
    </rect>
  );
}
