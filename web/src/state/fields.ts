// The fields of the page's state: their text in a link, and their valid values.

import { decimalComma, localNumber } from '../language/language';
import { plural, t } from '../language/text';

/** The problem of a text, as the end of a sentence: "is 7; it must be a number from 0 to 3". */
export class FieldError extends Error {}

export interface Field<T> {
  readonly initial: T;
  /** Whether this is the reader's answer to a question. The address keeps
   * it; a shared link does not. */
  readonly isAnswer?: true;
  write(value: T): string;
  /** Reads a value. Throws FieldError if the text is invalid. */
  read(text: string): T;
}

export function flag(initial: boolean): Field<boolean> {
  return {
    initial,
    write: (value) => (value ? '1' : '0'),
    read(text) {
      if (text !== '0' && text !== '1')
        throw new FieldError(t`is “${shorten(text)}”; it must be 0 or 1`);
      return text === '1';
    },
  };
}

export interface ChoiceField<V extends string> extends Field<V> {
  readonly values: readonly V[];
}

export function choice<V extends string>(values: readonly V[], initial: V): ChoiceField<V> {
  return {
    values,
    initial,
    write: (value) => value,
    read(text) {
      const found = values.find((value) => value === text);
      if (found !== undefined) return found;
      throw new FieldError(t`is “${shorten(text)}”; it must be one of ${values.join(', ')}`);
    },
  };
}

const GUESSES = ['none', 'a', 'b', 'c'] as const;
export type Guess = (typeof GUESSES)[number];

/** A reader's guess among three answers; initially none. */
export function guess(): ChoiceField<Guess> {
  return answer(GUESSES);
}

/** A reader's answer. The first value means "none". */
export function answer<V extends string>(values: readonly V[]): ChoiceField<V> {
  return { ...choice(values, values[0]), isAnswer: true };
}

export interface SubsetField extends Field<readonly string[]> {
  known(): readonly string[];
}

/** A non-empty subset of `known`, in its order. */
export function subset(known: () => readonly string[], initial: readonly string[]): SubsetField {
  return {
    known,
    initial,
    write: (values) => values.join(','),
    read(text) {
      const names = text.split(',').map((name) => name.trim());
      const stranger = names.find((name) => !known().includes(name));
      if (stranger !== undefined) {
        throw new FieldError(t`has “${shorten(stranger)}”; it may only have ${known().join(', ')}`);
      }
      return known().filter((name) => names.includes(name));
    },
  };
}

export interface Range {
  min: number;
  max: number;
  step: number; // 1: whole numbers only
}

export type NumberField = Field<number> & Range;

export function number(range: Range & { initial: number }): NumberField {
  const { min, max, step } = range;
  return {
    ...range,
    write: (value) => String(tidy(value)),
    read(text) {
      const value = readNumber(text);
      if (value < min || value > max || (step === 1 && !Number.isInteger(value))) {
        throw new FieldError(
          step === 1
            ? t`is ${shorten(text)}; it must be a whole number from ${min} to ${max}`
            : t`is ${shorten(text)}; it must be a number from ${min} to ${max}`,
        );
      }
      return step === 1 ? value : tidy(min + Math.round((value - min) / step) * step);
    },
  };
}

/** The seed of a random number generator. */
export function seed(): NumberField {
  return number({ min: 0, max: 9999, step: 1, initial: 0 });
}

/** A line of text of `min` to `max` bytes in UTF-8. */
export function line(initial: string, { min, max }: { min: number; max: number }): Field<string> {
  return {
    initial,
    write: (value) => value,
    read(text) {
      const bytes = new TextEncoder().encode(text).length;
      if (bytes >= min && bytes <= max) return text;
      throw new FieldError(t`has ${bytes} bytes; it must have from ${min} to ${max}`);
    },
  };
}

interface VectorLimits {
  minLength: number;
  maxLength: number;
  min?: number;
  max?: number;
}

/** A vector. By default it has as many values as the initial one. */
export function vector(
  initial: readonly number[],
  limits: Partial<VectorLimits> = {},
): Field<readonly number[]> {
  const { length } = initial;
  return {
    initial,
    write: (values) => values.join(','),
    read: (text) => readVector(text, { minLength: length, maxLength: length, ...limits }),
  };
}

/** Reads numbers separated by commas, semicolons or blanks, with or without
 * brackets, as readers paste them. */
export function readVector(text: string, limits: VectorLimits): number[] {
  const { minLength, maxLength, min = -Infinity, max = Infinity } = limits;
  const words = listed(text);
  if (words.length === 0)
    throw new FieldError(t`is empty; it must have numbers such as 1, 2, 3,
    4`);
  if (words.length < minLength || words.length > maxLength) {
    const bounds = minLength === maxLength ? `${minLength}` : t`from ${minLength} to ${maxLength}`;
    throw new FieldError(
      plural(
        words.length,
        'has {length} value; it must have {bounds}',
        'has {length} values; it must have {bounds}',
        { length: localNumber(words.length.toLocaleString('en')), bounds },
      ),
    );
  }
  return words.map((word, i) => {
    const value = parse(word);
    if (!Number.isFinite(value)) {
      throw new FieldError(t`has “${shorten(word)}” as item ${i + 1}, which is not a finite
        number`);
    }
    if (value < min || value > max) {
      throw new FieldError(
        t`has ${shorten(word)} as item ${i + 1}; each item must be from ${min} to ${max}`,
      );
    }
    return value;
  });
}

/** The words of a list, without the text around it: [ ], ( ), tensor([ ], dtype=…). */
function listed(text: string): string[] {
  const inside = text
    .trim()
    .replace(/,\s*(dtype|device|requires_grad|grad_fn)=.*$/s, '')
    .replace(/^[a-z_.]*\s*[[({]+/i, '')
    .replace(/[\])}]+$/, '');
  if (inside.includes(';') && /\d,\d/.test(inside)) {
    throw new FieldError(t`has decimal commas; use points, as in 1.5; 2`);
  }
  return inside.split(/[\s,;]+/).filter(Boolean);
}

/** Reads a number. The page's typographic minus sign is accepted. */
function parse(word: string): number {
  return Number(word.replace('−', '-'));
}

function readNumber(text: string): number {
  const point = decimalComma ? text.replace(',', '.') : text;
  const value = text.trim() === '' ? NaN : parse(point);
  if (!Number.isFinite(value)) throw new FieldError(t`is “${shorten(text)}”; it must be a number`);
  return value;
}

/** Removes rounding errors, for example of 0.1 + 0.2, because sliders add up steps. */
export function tidy(value: number): number {
  return Number(value.toPrecision(12));
}

function shorten(text: string): string {
  return text.length > 24 ? `${text.slice(0, 23)}…` : text;
}
