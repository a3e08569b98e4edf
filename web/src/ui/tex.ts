// Numbers in formulas, in the notation of the page's language.

import { decimalComma } from '../language/language';

/** `digits` significant digits as TeX: 2.5, -0.44721, 10^{-5}, 1.2\times 10^{300}. */
export function texNumber(v: number, digits = 6): string {
  if (Number.isNaN(v)) return '\\text{NaN}';
  if (!Number.isFinite(v)) return v > 0 ? '\\infty' : '-\\infty';
  const rounded = Number(v.toPrecision(digits));
  const size = Math.abs(rounded);
  if (size === 0 || (size >= 1e-3 && size < 1e6)) return local(String(rounded === 0 ? 0 : rounded));
  const [factor, power] = rounded.toExponential().split('e');
  const ten = `10^{${Number(power)}}`;
  if (factor === '1') return ten;
  return factor === '-1' ? `-${ten}` : `${local(factor)}{\\times}${ten}`;
}

/** In braces, a comma is no separator of a list and has no space after it. */
function local(number: string): string {
  return decimalComma ? number.replace('.', '{,}') : number;
}

/** The number in brackets if a minus sign would follow an operator. */
export function texFactor(v: number, digits = 6): string {
  return v < 0 ? `(${texNumber(v, digits)})` : texNumber(v, digits);
}

/** "= 2.5", or "≈ 1.11804" if digits were dropped. */
export function texResult(v: number, digits = 6): string {
  const exact = !Number.isFinite(v) || Number(v.toPrecision(digits)) === v;
  return `${exact ? '=' : '\\approx'} ${texNumber(v, digits)}`;
}
