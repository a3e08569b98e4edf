// The cells of two maps as one control, for the keyboard, pointers and screen readers.

import { useState } from 'preact/hooks';
import { assign } from '../../state/store';
import { pointIn } from '../../ui/pointer';
import { cellAt, layoutOf } from './layout';
import { type Batch, type Cell, featuresOf } from './sets';
import { state } from './state';

/** The cell at the pointer, or the chosen one, and a function that sets the former. */
export function useCell(batch: Batch): [Cell, (cell: Cell | null) => void] {
  const [pointed, setPointed] = useState<Cell | null>(null);
  const chosen = { row: state.row.value - 1, column: state.column.value - 1 };
  return [within(batch, pointed ?? chosen), setPointed];
}

function within(batch: Batch, { row, column }: Cell): Cell {
  return {
    row: Math.max(0, Math.min(row, batch.samples - 1)),
    column: Math.max(0, Math.min(column, featuresOf(batch) - 1)),
  };
}

interface CellsProps {
  width: number;
  batch: Batch;
  cell: Cell;
  label: string;
  words: string;
  point(cell: Cell | null): void;
}

/** A slider over the cells of both maps. */
export function Cells({ width, batch, cell, label, words, point }: CellsProps) {
  const features = featuresOf(batch);
  const layout = layoutOf(width, batch);
  const choose = (chosen: Cell) => {
    const { row, column } = within(batch, chosen);
    point(null);
    assign(state, { row: row + 1, column: column + 1 });
  };
  const at = (event: MouseEvent): Cell | null => {
    return cellAt(layout, batch, ...pointIn(event));
  };
  const press = (event: KeyboardEvent) => {
    const { row, column } = cell;
    const moves: Record<string, Cell> = {
      ArrowUp: { row: row - 1, column },
      ArrowDown: { row: row + 1, column },
      ArrowLeft: { row, column: column - 1 },
      ArrowRight: { row, column: column + 1 },
      Home: { row, column: 0 },
      End: { row, column: features - 1 },
    };
    if (!(event.key in moves)) return;
    event.preventDefault();
    choose(moves[event.key]);
  };
  return (
    <rect
      class="axes-cells"
      width={width}
      height={layout.height}
      role="slider"
      tabindex={0}
      aria-label={label}
      aria-valuemin={1}
      aria-valuemax={batch.samples * features}
      aria-valuenow={cell.row * features + cell.column + 1}
      aria-valuetext={words}
      onKeyDown={press}
      onPointerMove={(event) => event.pointerType === 'mouse' && point(at(event))}
      onPointerLeave={() => point(null)}
      onClick={(event) => {
        const clicked = at(event);
        if (clicked) choose(clicked);
      }}
    />
  );
}
