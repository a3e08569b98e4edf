// Checks of arguments before a call, so that the module gets arrays of the lengths that it relies on.

import { KernelError, type Values } from './instance.js';

/** Throws a KernelError with this message unless the condition holds. */
export function check(condition: unknown, sentence: string): asserts condition {
  if (!condition) throw new KernelError(sentence);
}

/** Throws unless `options` is an object that has only these names. */
export function checkNames(options: object, names: readonly string[]): void {
  check(
    typeof options === 'object' && options !== null,
    `options are ${show(options)}, must be an object`,
  );
  for (const name of Object.keys(options)) {
    check(names.includes(name), `there is no option ${show(name)}; there are ${names.join(', ')}`);
  }
}

/** Throws unless `value` is a whole number of at least `least` that fits into 32 bits. */
export function checkCount(name: string, value: number, least = 1): void {
  check(
    Number.isInteger(value) && value >= least && value < 2 ** 32,
    `${name} is ${show(value)}, must be a whole number from ${least}`,
  );
}

/** Throws unless `value` is of this type. */
export function checkType(
  name: string,
  value: unknown,
  type: 'number' | 'string' | 'boolean',
): void {
  check(typeof value === type, `${name} is ${show(value)}, must be a ${type}`);
}

/** The index of `value` in `choices`. Throws if it is not one of them. */
export function placeOf(name: string, value: string, choices: readonly string[]): number {
  const place = choices.indexOf(value);
  check(place >= 0, `${name} is ${show(value)}, must be one of ${choices.map(show).join(', ')}`);
  return place;
}

/** Throws unless `values` is a non-empty array of floating-point values. */
export function checkValues(name: string, values: Values): void {
  const floats = ArrayBuffer.isView(values) && /^Float(32|64)Array$/.test(typeOf(values));
  check(floats, `${name} is ${show(values)}, must be a Float32Array or a Float64Array`);
  check(values.length > 0, `${name} is empty`);
}

/** Throws unless `values` is absent or has the given length and the type of `like`. */
export function checkLike(
  name: string,
  values: Values | null | undefined,
  like: Values,
  length = like.length,
): void {
  if (values === null || values === undefined) return;
  const alike = ArrayBuffer.isView(values) && typeOf(values) === typeOf(like);
  check(alike, `${name} is ${show(values)}, must be a ${typeOf(like)}`);
  check(values.length === length, `${name} has ${values.length} values, must have ${length}`);
}

/** The type name of a value. Unlike instanceof, it also works for values of another realm. */
function typeOf(value: unknown): string {
  return Object.prototype.toString.call(value).slice(8, -1);
}

function show(value: unknown): string {
  if (typeof value === 'string') return JSON.stringify(value);
  return Object(value) === value ? `of type ${typeOf(value)}` : String(value);
}
