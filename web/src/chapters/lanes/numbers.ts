// The numbers of the chosen arrangement, and the results that the module computes from them.

import type { AddNormOptions } from 'addnorm';
import { kernels } from '../../kernels/current';
import type { LaneNumbers, LaneRow, LaneStack } from '../../kernels/lanes';
import { assign } from '../../state/store';
import { normal } from '../../ui/random';
import { mean, sum } from '../../ui/vectors';
import type { RowName } from './rows';
import { MOST_LANES, state } from './state';

export const FEATURES = 3;

let table: Map<string, LaneRow> | undefined;

/** The row of the library's table; undefined for the reader's own numbers. */
export function rowOf(name: RowName): LaneRow | undefined {
  table ??= new Map(kernels.lanes.rows().map((row) => [row.name, row]));
  return table.get(name);
}

/** The reader's own numbers. Lists in a link whose lengths do not match are cut, or filled with 0. */
export function ownNumbers(): LaneNumbers {
  const read = state.read.value;
  const lanes = read.length;
  const fitted = (values: readonly number[], length: number) =>
    Array.from({ length }, (_, i) => values[i] ?? 0);
  return {
    lanes,
    lanesAfter: lanes,
    read,
    carry: fitted(state.carry.value, lanes * lanes),
    write: fitted(state.write.value, lanes),
  };
}

interface StackChoice {
  layers: number;
  moved: boolean;
}

/** Whether the reader can choose the row's number of lanes. */
export function hasFreeLanes(row: LaneRow): boolean {
  return !row.grows && row.least < row.most;
}

/** A stack of the row. Where the row leaves the number of lanes free, the reader's choice is used. */
export function stackOf(name: RowName, { layers, moved }: StackChoice): LaneStack {
  if (name === 'own') return { layers, own: ownNumbers() };
  const row = rowOf(name)!;
  const lanes = hasFreeLanes(row) ? Number(state.lanes.value) : 0;
  return { row, layers, lanes, moved, seed: state.seed.value };
}

/** A stack in which each lane takes this share from the others at every sublayer, in equal parts. */
export function evenStack(layers: number, share: number): LaneStack {
  const lanes = Number(state.lanes.value);
  const carry = Array.from({ length: lanes * lanes }, (_, k) =>
    k % (lanes + 1) === 0 ? 1 - share : share / (lanes - 1),
  );
  const ones = Array.from({ length: lanes }, () => 1);
  return { layers, own: { lanes, lanesAfter: lanes, read: ones, carry, write: ones } };
}

/** The share that a lane takes from the others at one sublayer, as the mean over all sublayers. */
export function taken(sublayers: readonly LaneNumbers[]): number {
  const shares = sublayers.map(({ lanes, carry }) =>
    sum(carry.map((v, k) => (k % (lanes + 1) === 0 ? 0 : Math.abs(v) / lanes))),
  );
  return mean(shares);
}

/** The numbers of a row at one sublayer of a stack of 12 layers, at the start of training. */
export function startingNumbers(name: RowName, sublayer = 1): LaneNumbers {
  const stack = stackOf(name, { layers: 12, moved: false });
  return kernels.lanes.numbers(stack)[sublayer - 1];
}

/** Whether the row has learned numbers that training moves. */
export function moves(name: RowName): boolean {
  const [start, end] = [false, true].map((moved) =>
    kernels.lanes.mixing(stackOf(name, { layers: 3, moved })),
  );
  return JSON.stringify(start) !== JSON.stringify(end);
}

export type Part = 'read' | 'carry' | 'write';

/** Changes one number. The displayed numbers become the reader's own. */
export function setNumber(shown: LaneNumbers, part: Part, index: number, value: number): void {
  const numbers = (of: Part) =>
    shown[of].map((v, i) => (of === part && i === index ? value : Number(v.toPrecision(4))));
  assign(state, {
    row: 'own',
    read: numbers('read'),
    carry: numbers('carry'),
    write: numbers('write'),
  });
}

/** Sets own numbers for this many lanes. Each lane keeps most of itself; the
 * first has the largest weights. */
export function startOver(lanes: number): void {
  const all = Array.from({ length: lanes }, (_, i) => i);
  const off = lanes === 1 ? 0 : 0.2 / (lanes - 1);
  const fading = all.map((i) => Number((1 - (0.6 * i) / MOST_LANES).toFixed(2)));
  assign(state, {
    row: 'own',
    read: fading,
    carry: all.flatMap((i) =>
      all.map((j) => Number((i === j ? 1 - off * (lanes - 1) : off).toFixed(4))),
    ),
    write: fading,
  });
}

/** The values that pass through one sublayer. */
export interface Step {
  x: number[][];
  z: number[];
  f: number[];
  next: number[][];
}

export function step(numbers: LaneNumbers, row: LaneRow | undefined): Step {
  const { lanes, lanesAfter } = numbers;
  const [x, f] = drawn(lanes);
  const readFrom = x.slice();
  if (row?.lastLane) normalizeLane(readFrom, lanes - 1);
  const { z } = kernels.lanes.step(numbers, readFrom, f);
  const { next } = kernels.lanes.step(numbers, x, f);
  if (row?.after) normalizeLane(next, 0);
  return { x: inRows(x, lanes), z: [...z], f: [...f], next: inRows(next, lanesAfter) };
}

/** The values of a token's lanes and the output of F, rounded for display. */
function drawn(lanes: number): [x: Float64Array, f: Float64Array] {
  const draw = normal(state.values.value + 11);
  const values = Float64Array.from({ length: (MOST_LANES + 1) * FEATURES }, () =>
    Number(draw().toFixed(1)),
  );
  const f = values.slice(0, FEATURES);
  const alike = state.lanesAre.value === 'alike';
  const x = Float64Array.from(
    { length: lanes * FEATURES },
    (_, i) => values[FEATURES + (alike ? i % FEATURES : i)],
  );
  return [x, f];
}

const NORM: AddNormOptions<Float64Array> = { features: FEATURES };

function normalizeLane(values: Float64Array, lane: number): void {
  const part = values.slice(lane * FEATURES, (lane + 1) * FEATURES);
  values.set(kernels.addNorm(part, null, NORM).y, lane * FEATURES);
}

function inRows(values: Float64Array, rows: number): number[][] {
  return Array.from({ length: rows }, (_, i) =>
    Array.from(values.subarray(i * FEATURES, (i + 1) * FEATURES)),
  );
}
