// Vectors as tables, for eyes and for screen readers.

import { signal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useMemo } from 'preact/hooks';
import { exactNumber } from './numbers';

/** Whether the tables of every figure are in sight. Screen readers have them always. */
export const showNumbers = signal(false);

export interface VectorRow {
  name: string; // "x", "F(x)"
  /** x, branch, sum, normalized, output, …: what the row is, for scripts. */
  id: string;
  values: readonly number[];
}

export interface ScrollTableProps {
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

/** One row a vector, one cell a value. */
export function VectorTable({ caption, rows }: { caption: string; rows: VectorRow[] }) {
  const places = Math.max(...rows.map((row) => row.values.length));
  return (
    <ScrollTable caption={caption}>
      <thead>
        <Places count={places} />
      </thead>
      <tbody>
        {rows.map((row) => (
          <Row key={row.id} {...row} />
        ))}
      </tbody>
    </ScrollTable>
  );
}

function Places({ count }: { count: number }) {
  return useMemo(
    () => (
      <tr>
        <th scope="col">vector</th>
        {Array.from({ length: count }, (_, i) => (
          <th scope="col" key={i}>
            {i + 1}
          </th>
        ))}
      </tr>
    ),
    [count],
  );
}

/** The same elements for the same values: there may be a thousand. */
function Row({ name, id, values }: VectorRow) {
  return useMemo(
    () => (
      <tr data-vector={id}>
        <th scope="row">{name}</th>
        {values.map((v, i) => (
          <td key={i}>{exactNumber(v)}</td>
        ))}
      </tr>
    ),
    [name, id, values],
  );
}
