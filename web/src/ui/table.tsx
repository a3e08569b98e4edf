// Tables, for eyes and for screen readers.

import { signal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useMemo } from 'preact/hooks';
import { t } from '../language/text';
import { exactNumber, roundNumber } from './numbers';

/** Whether the tables of every figure are in sight. Screen readers have them always. */
export const showNumbers = signal(false);

interface ScrollTableProps {
  caption: string;
  /** In sight always, not only where numbers are asked for. */
  visible?: boolean;
  children: ComponentChildren;
}

/** A table that scrolls sideways where it is too wide, by keyboard too. */
export function ScrollTable({ caption, visible, children }: ScrollTableProps) {
  const inSight = visible || showNumbers.value;
  const focusable = inSight ? { tabIndex: 0, role: 'region', 'aria-label': caption } : {};
  return (
    <div class="scroll" {...(focusable as object)}>
      <table>
        <caption>{caption}</caption>
        {children}
      </table>
    </div>
  );
}

interface RowProps<C> {
  head: ComponentChildren;
  cells: readonly C[];
  class?: string;
  /** What the row is, for scripts: { vector: 'sum' } gives it data-vector="sum". */
  data?: Record<string, string>;
}

interface DataTableProps<C> extends Omit<ScrollTableProps, 'children'> {
  columns?: readonly ComponentChildren[]; // the first is that of the rows' heads
  rows: readonly RowProps<C>[];
  /** What a cell shows; by default what it is. */
  format?(cell: C): ComponentChildren;
}

/** A table with a head for each row, and for each column if it has `columns`. */
export function DataTable<C>({ columns, rows, format, ...scroll }: DataTableProps<C>) {
  return (
    <ScrollTable {...scroll}>
      {columns && <Columns columns={columns} />}
      <tbody>
        {rows.map((row, i) => (
          <Row key={i} {...row} format={format} />
        ))}
      </tbody>
    </ScrollTable>
  );
}

// The same elements for the same columns and cells: there may be a thousand.

function Columns({ columns }: { columns: readonly ComponentChildren[] }) {
  return useMemo(
    () => (
      <thead>
        <tr>
          {columns.map((column, i) =>
            column === '' ? (
              <td key={i} />
            ) : (
              <th scope="col" key={i}>
                {column}
              </th>
            ),
          )}
        </tr>
      </thead>
    ),
    [columns],
  );
}

function Row<C>({
  head,
  cells,
  class: name,
  data = {},
  format,
}: RowProps<C> & Pick<DataTableProps<C>, 'format'>) {
  const attributes = Object.entries(data).map(([key, value]) => [`data-${key}`, value]);
  return useMemo(
    () => (
      <tr class={name} {...Object.fromEntries(attributes)}>
        <th scope="row">{head}</th>
        {cells.map((cell, i) => (
          <td key={i}>{format ? format(cell) : (cell as ComponentChildren)}</td>
        ))}
      </tr>
    ),
    [head, cells, format, name, JSON.stringify(attributes)],
  );
}

export interface VectorRow {
  name: string; // "x", "F(x)"
  /** x, branch, sum, normalized, output, …: what the row is, for scripts. */
  id: string;
  values: readonly number[];
}

/** One row a vector, one cell a value. */
export function VectorTable({ caption, rows }: { caption: string; rows: VectorRow[] }) {
  const length = Math.max(...rows.map((row) => row.values.length));
  const columns = useMemo(() => [t`vector`, ...Array.from({ length }, (_, i) => i + 1)], [length]);
  return (
    <DataTable
      caption={caption}
      columns={columns}
      rows={rows.map(({ name, id, values }) => ({
        head: name,
        cells: values,
        data: { vector: id },
      }))}
      format={exactNumber}
    />
  );
}

/** A number, or nothing where there is none. */
export function numberOrBlank(value: number | null | undefined): string {
  return value == null ? '' : exactNumber(value);
}

/** Three significant digits; the whole number is its title, and its value for scripts. */
export function Rounded({ value }: { value: number }) {
  return (
    <data value={value} title={exactNumber(value)}>
      {roundNumber(value, 3)}
    </data>
  );
}

interface StatisticsProps {
  look?: 'lines' | 'inline' | 'cards';
  rows: readonly (readonly [id: string, name: ComponentChildren, value: ComponentChildren])[];
}

/** Single numbers, each with its name. */
export function Statistics({ look = 'lines', rows }: StatisticsProps) {
  return (
    <dl class={`statistics ${look}`}>
      {rows.map(([id, name, value]) => (
        <div key={id} class={look === 'cards' ? 'card' : ''}>
          <dt>{name}</dt>
          <dd data-stat={id}>{value}</dd>
        </div>
      ))}
    </dl>
  );
}
