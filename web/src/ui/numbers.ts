// Numbers in text, in the notation of the page's language.

import { decimalComma, localNumber } from '../language/language';

/** The number with two decimals, or with as many as its size needs: 0.25,
 * −1.30, 12.0, 0.0015, 3.4e8. */
export function shortNumber(v: number): string {
  if (Number.isNaN(v)) return 'NaN';
  if (!Number.isFinite(v)) return v > 0 ? '∞' : '−∞';
  const size = Math.abs(v);
  if (size !== 0 && (size >= 1e4 || size < 1e-3)) return powerNumber(v, 1);
  if (size !== 0 && size < 0.01) return written(String(Number(v.toPrecision(2))));
  return fixedNumber(v, size >= 100 ? 0 : size >= 10 ? 1 : 2);
}

/** Numbers for a column. All have the same number of decimals: the largest has three significant
 * digits, and zeros that all numbers end in are dropped. */
export function alignedNumbers(values: readonly number[]): string[] {
  const most = values.reduce((max, v) => Math.max(max, Math.abs(v)), 0);
  if (!(most < 1e4) || (most > 0 && most < 0.01)) return values.map(shortNumber);
  const decimals = Math.max(0, 2 - Math.floor(Math.log10(Math.max(1, most))));
  const ends = (digits: number) =>
    values.every((v) => v.toFixed(decimals).endsWith('0'.repeat(digits)));
  const zeros = [2, 1, 0].find((digits) => digits <= decimals && ends(digits))!;
  return values.map((v) => fixedNumber(v, decimals - zeros));
}

/** A fixed number of decimals. A value that rounds to zero has no sign. */
export function fixedNumber(v: number, decimals: number): string {
  return written(v.toFixed(decimals).replace(/^-(0(\.0+)?)$/, '$1'));
}

/** The number with a power of ten: 1.5e−7. */
export function powerNumber(v: number, decimals: number): string {
  return written(v.toExponential(decimals).replace('e+', 'e'));
}

/** Seven significant digits, for tables. Whole numbers have no decimals. */
export function exactNumber(v: number): string {
  if (Number.isInteger(v) && Math.abs(v) < 1e7) return written(String(v));
  return written(Number.isFinite(v) ? v.toPrecision(7).replace('e+', 'e') : String(v));
}

/** `digits` significant digits, for sentences and formulas. */
export function roundNumber(v: number, digits = 4): string {
  if (!Number.isFinite(v)) return shortNumber(v);
  const size = Math.abs(v);
  if (size !== 0 && (size >= 10 ** Math.max(6, digits) || size < 1e-3)) {
    return powerNumber(v, digits - 1);
  }
  return written(String(Number(v.toPrecision(digits))));
}

/** A share in percent, with `digits` significant digits. */
export function percent(share: number, digits = 3): string {
  return `${roundNumber(100 * share, digits)} %`;
}

/** A whole number with all its digits, another number with at most six. */
export function plainNumber(v: number): string {
  if (Number.isSafeInteger(v)) return written(String(v));
  return written(String(Number(v.toPrecision(6))).replace('e+', 'e'));
}

/** 3152384 becomes 3,152,384, in German 3.152.384. */
export function grouped(n: number): string {
  return localNumber(n.toLocaleString('en'));
}

/** A list of numbers, separated by semicolons if they have decimal commas. */
export function listed(numbers: readonly string[]): string {
  return numbers.join(decimalComma ? '; ' : ', ');
}

/** A number from a cell of a table, in the notation of programs: 0,5 becomes 0.5. Other text stays
 * as it is. */
export function plainText(cell: string): string {
  const text = cell.trim().replaceAll('−', '-');
  return decimalComma ? text.replace(/^(-?\d+),(\d+(e-?\d+)?)$/, '$1.$2') : text;
}

function written(text: string): string {
  return localNumber(text.replaceAll('-', '−'));
}
