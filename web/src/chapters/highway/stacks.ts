// The four stacks: with and without a residual, with and without a norm.

import type { Arrangement, Initialization, Placement, SessionOptions } from '../../kernels/kernels';
import type { Stack } from '../../kernels/session-host';

export interface Lane {
  name: string;
  colour: { light: string; dark: string };
  dash?: number[];
}

/** In the order of `stacks`. */
export const LANES: Lane[] = [
  { name: 'Neither', colour: { light: '#c2410c', dark: '#ff9d5c' } },
  { name: 'Norm only', colour: { light: '#8a3ffc', dark: '#c9a5ff' }, dash: [10, 4] },
  { name: 'Residual only', colour: { light: '#00704f', dark: '#4fd6a8' }, dash: [3, 4] },
  { name: 'Both', colour: { light: '#0b62b8', dark: '#6cb8ff' } },
];

export interface Choice {
  layers: number;
  width: number;
  both: 'pre' | 'post';
  first: Initialization;
  seed: number;
}

export function arrangements(table: Placement[], both: 'pre' | 'post'): Arrangement[] {
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
