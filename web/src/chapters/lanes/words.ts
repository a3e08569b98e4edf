// The sentences of the chapter, made from the numbers.

import type { LaneNumbers, Mixing } from '../../kernels/lanes';
import { t } from '../../language/text';
import { capital } from '../../ui/names';
import { roundNumber } from '../../ui/numbers';
import { largest, sum } from '../../ui/vectors';

export function readerName(mixing: Mixing, row: number): string {
  return row + 1 === mixing.length ? t`the exit` : t`sublayer ${row + 1}`;
}
export function sourceName(column: number): string {
  return column === 0 ? 'x' : t`sublayer ${column}`;
}

/** A sentence about one entry of M. */
export function cellWords(mixing: Mixing, row: number, column: number): string {
  const weight = mixing[row][column];
  if (weight === null) return t`This weight is not a finite number.`;
  const most = largest(mixing[row].map((v) => v ?? 0));
  const what = column === 0 ? t`the embedding x` : t`the output of sublayer ${column}`;
  const share =
    Math.abs(weight) >= most * (1 - 1e-9)
      ? t`no weight of its row is larger`
      : t`the largest weight of its row is ${roundNumber(most, 3)}`;
  return t`${capital(readerName(mixing, row))} reads ${what} with weight ${roundNumber(weight, 3)}; ${share}.`;
}

/** A sentence about the weights of the last sublayer. */
export function lastWords(mixing: Mixing): string {
  const row = mixing.length - 2;
  const weights = mixing[row].slice(1, row + 1); // the previous sublayers
  if (weights.some((v) => v === null)) return t`Its weights are not finite numbers.`;
  const sizes = (weights as number[]).map(Math.abs);
  const [first, last, most, least] = [
    sizes[0],
    sizes.at(-1)!,
    Math.max(...sizes),
    Math.min(...sizes),
  ];
  const name = capital(readerName(mixing, row));
  if (most === 0) return t`${name} reads nothing of the sublayers before it.`;
  if (most - least < 1e-6 * most)
    return t`${name} reads all sublayers before it with equal
    weights.`;
  if (first < 0.5 * last && last > 0.99 * most) {
    return first === 0
      ? t`${name} reads nothing of the first sublayer.`
      : t`${name} reads the previous sublayer with ${roundNumber(last / first, 2)} times the weight of the first one.`;
  }
  const alternates = sizes.some(
    (v, i) => i > 1 && v < sizes[i - 1] * 0.9 && sizes[i - 1] > sizes[i - 2] * 1.1,
  );
  return spreadWords(name, { most, least, alternates });
}

interface Spread {
  most: number;
  least: number;
  alternates: boolean;
}

function spreadWords(name: string, { most, least, alternates }: Spread): string {
  const factor = roundNumber(most / least, 2);
  if (alternates) {
    return least === 0
      ? t`${name} reads some of the sublayers before it more than others, and some not at all.`
      : t`${name} reads some of the sublayers before it more than others: the weights differ by up to a factor of ${factor}.`;
  }
  return least === 0
    ? t`${name} reads the sublayers before it with different weights, and some not at all.`
    : t`${name} reads the sublayers before it with weights that differ by up to a factor of
      ${factor}.`;
}

const NEAR = 1e-3; // tolerance for sums that should be 1

/** Special properties of A, b and a, one sentence each. */
export function numbersWords(numbers: LaneNumbers): string[] {
  const { lanes, lanesAfter, read, carry, write } = numbers;
  if (lanes === 1 && lanesAfter === 1) return oneLaneWords(numbers);
  const isEven = largest(write.map((v) => v - write[0])) < NEAR;
  const written = isEven
    ? t`All lanes are written with equal weights.`
    : t`The lanes are written with different weights, so they become different.`;
  return [
    carryWords(lanes, lanesAfter, carry),
    lanesAfter === lanes ? written : '',
    read.filter((v) => v !== 0).length === 1 ? t`Only one lane is read.` : '',
  ].filter(Boolean);
}

function oneLaneWords({ read: [a], carry: [skip], write: [gain] }: LaneNumbers): string[] {
  const ordinary = Math.max(...[a, skip, gain].map((v) => Math.abs(v - 1))) < NEAR;
  const [z, x, f] = [a, skip, gain].map((v) => roundNumber(v, 3));
  return ordinary
    ? [t`One lane, and all numbers 1: x′ = x + F(x), the ordinary residual connection.`]
    : [
        t`One lane: z = ${z}·x and x′ = ${x}·x + ${f}·f. A is the skip and b the gain of the ordinary residual connection.`,
      ];
}

function carryWords(lanes: number, lanesAfter: number, carry: readonly number[]): string {
  if (lanesAfter > lanes) return t`A has one more row than columns: the stream grows by a lane.`;
  const isOne = (values: number[]) => Math.abs(sum(values) - 1) < NEAR;
  const all = Array.from({ length: lanes }, (_, i) => i);
  const entry = (i: number, j: number) => carry[i * lanes + j];
  const isIdentity = carry.every((v, k) => v === Number(k % (lanes + 1) === 0));
  if (isIdentity) return t`A = I: each lane continues unchanged.`;
  const rows = all.every((i) => isOne(all.map((j) => entry(i, j))));
  const columns = all.every((j) => isOne(all.map((i) => entry(i, j))));
  const positive = carry.every((v) => v >= 0);
  if (rows && columns && positive) {
    return t`No entry of A is negative, and its rows and columns have the sum 1: A is doubly stochastic. It
      keeps the mean of the lanes, and their differences shrink.`;
  }
  if (rows && columns)
    return t`Rows and columns of A have the sum 1: it keeps the mean of the lanes.`;
  if (columns) return t`The columns of A have the sum 1: it keeps the mean of the lanes.`;
  if (rows) return t`The rows of A have the sum 1: equal lanes stay equal.`;
  return t`Neither the rows nor the columns of A have the sum 1: the mean of the lanes changes.`;
}
