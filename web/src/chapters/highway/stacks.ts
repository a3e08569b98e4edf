// The four stacks: with and without a residual, with and without a norm.

import type { Initialization } from 'addnorm';
import type { Arrangement, Placement, SessionOptions } from '../../kernels/kernels';
import type { Stack } from '../../kernels/session-host';
import { CURVE_COLOURS, type Themed } from '../../ui/colours';

interface Lane {
  name: string;
  colour: Themed;
  dash?: number[];
}

/** In the order of `stacks`. */
export const LANES: Lane[] = [
  { name: 'Neither', colour: CURVE_COLOURS.orange },
  { name: 'Norm only', colour: CURVE_COLOURS.violet, dash: [10, 4] },
  { name: 'Residual only', colour: CURVE_COLOURS.green, dash: [3, 4] },
  { name: 'Both', colour: CURVE_COLOURS.blue },
];

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
