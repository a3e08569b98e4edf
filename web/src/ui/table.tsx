// Tables, for sighted readers and screen readers.

import { signal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useMemo } from 'preact/hooks';
import { t } from '../language/text';
import { exactNumber, plainNumber, roundNumber } from './numbers';

/** Whether the tables of every figure are visible. Screen readers always have them. */
export const showNumbers = signal(false);

interface ScrollTableProps {
  caption: string;
  /** Whether the table is always visible, not only when numbers are shown. */
  visible?: boolean;
  children: ComponentChildren;
}

/** A table that scrolls sideways if it is too wide, also by keyboard. */
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
  /** Data attributes of the row, for scripts: { vector: 'sum' } gives data-vector="sum". */
  data?: Record<string, string>;
}

interface DataTableProps<C> extends Omit<ScrollTableProps, 'children'> {
  columns?: readonly ComponentChildren[]; // the first is the column of row headers
  rows: readonly RowProps<C>[];
  /** Formats a cell; by default the cell itself. */
  format?(cell: C): ComponentChildren;
}

/** A table with a header for each row and, if it has `columns`, for each column. */
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

/** A number in the notation of the page's language; other content as it is. */
function plain(content: ComponentChildren): ComponentChildren {
  return typeof content === 'number' ? plainNumber(content) : content;
}

// Columns and rows are memoized, because there may be a thousand.

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
                {plain(column)}
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
          <td key={i}>{format ? format(cell) : plain(cell as ComponentChildren)}</td>
        ))}
      </tr>
    ),
    [head, cells, format, name, JSON.stringify(attributes)],
  );
}

export interface VectorRow {
  name: string; // "x", "F(x)"
  /** The kind of the row, for scripts: x, branch, sum, normalized, output, … */
  id: string;
  values: readonly number[];
}

/** A table with one row per vector and one cell per value. */
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

/** The number as text, or '' if there is none. */
export function numberOrBlank(value: number | null | undefined): string {
  return value == null ? '' : exactNumber(value);
}

/** A number with three significant digits. Its title and its value attribute have all digits. */
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
