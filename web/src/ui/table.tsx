// Vectors as tables, for eyes and for screen readers.

import { signal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { exactNumber } from './numbers';

/** Whether the tables of every figure are in sight. Screen readers have them always. */
export const showNumbers = signal(false);

export interface VectorRow {
  name: string; // "x", "F(x)"
  /** x, branch, sum, normalized, output, …: what the row is, for scripts. */
  id: string;
  values: readonly number[];
}

/** A table that scrolls sideways where it is too wide, by keyboard too. */
export function ScrollTable({ caption, children }: { caption: string; children: ComponentChildren }) {
  const focusable = showNumbers.value ? { tabIndex: 0, role: 'region', 'aria-label': caption } : {};
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
        <tr>
          <th scope="col">vector</th>
          {Array.from({ length: places }, (_, i) => (
            <th scope="col" key={i}>{i + 1}</th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map((row) => (
          <tr key={row.id} data-vector={row.id}>
            <th scope="row">{row.name}</th>
            {row.values.map((v, i) => <td key={i}>{exactNumber(v)}</td>)}
          </tr>
        ))}
      </tbody>
    </ScrollTable>
  );
}
