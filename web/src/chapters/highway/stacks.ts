// The four stacks: with and without a residual, with and without a norm.

import type { Initialization } from 'addnorm';
import type { Arrangement, Placement, SessionOptions } from '../../kernels/kernels';
import type { Stack } from '../../kernels/session-host';
import { t } from '../../language/text';
import { type Look, lookOf } from '../../stacks/looks';

interface Lane extends Look {
  name: string;
}

/** The lanes, in the order of `stacks`. */
export const LANES: Lane[] = [
  { name: t`Neither`, colour: 'var(--series-2)' },
  { name: t`Norm only`, colour: 'var(--series-4)', dash: '10 4' },
  { name: t`Residual only`, colour: 'var(--series-3)', dash: '3 4' },
  { name: t`Both`, colour: 'var(--series-1)' },
];

/** The measured lanes. The stack with both uses the look of its placement in other charts. */
export function lanesOf(measured: readonly Stack[]): Lane[] {
  const both = lookOf(measured.at(-1)!.arrangement.before ? 'pre' : 'post');
  return LANES.map((lane, i) => (i + 1 === LANES.length ? { ...lane, ...both } : lane));
}

export interface Choice {
  layers: number;
  width: number;
  both: 'pre' | 'post';
  first: Initialization;
  seed: number;
}

function arrangements(table: Placement[], both: 'pre' | 'post'): Arrangement[] {
  const row = (name: string) => table.find((placement) => placement.name === name)!;
  const plain = row('plain');
  return [plain, { ...plain, before: true }, row('none'), row(both)];
}

export function stacks(table: Placement[], choice: Choice): Stack[] {
  const options: SessionOptions = {
    layers: choice.layers,
    width: choice.width,
    heads: 2,
    context: 16,
    batch: 2,
    learningRate: 1e-3,
    warmUp: 0,
    seed: choice.seed,
    initialization: choice.first,
    norm: 'layer',
  };
  return arrangements(table, choice.both).map((arrangement) => ({ arrangement, options }));
}
