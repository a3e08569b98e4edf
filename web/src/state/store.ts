// The state of the page: every value that a reader can change and a link keeps.

import { batch, computed, signal } from '@preact/signals';
import { t } from '../language/text';
import { type Field, FieldError } from './fields';

/** One value. A component or an effect that reads `.value` runs again when it changes. */
export class Item<T, F extends Field<T> = Field<T>> {
  readonly #value;
  /** The last text, if it was invalid, and what was wrong with it. */
  readonly refused = signal<{ text: string; problem: string } | undefined>(undefined);
  /** Why, as the end of a sentence; '' if nothing is wrong. */
  readonly problem = computed(() => this.refused.value?.problem ?? '');

  constructor(readonly field: F) {
    this.#value = signal<T>(field.initial);
  }
  get value(): T {
    return this.#value.value;
  }
  set value(value: T) {
    batch(() => {
      this.refused.value = undefined;
      this.#value.value = value;
    });
  }
  reset(): void {
    this.value = this.field.initial;
  }
  /** The value as a link has it. */
  get text(): string {
    return this.field.write(this.value);
  }
  /** Sets the value from a text. An invalid text leaves the value, and `problem` says why. */
  read(text: string): boolean {
    try {
      this.value = this.field.read(text);
      return true;
    } catch (error) {
      if (!(error instanceof FieldError)) throw error;
      this.refused.value = { text, problem: error.message };
      return false;
    }
  }
  get initialText(): string {
    return this.field.write(this.field.initial);
  }
}

export type Items<F extends Record<string, Field<any>>> = {
  [K in keyof F]: F[K] extends Field<infer T> ? Item<T, F[K]> : never;
};

const items = new Map<string, Item<any, any>>();

/** The state of one chapter. In a link its values are `prefix.name`. */
export function defineState<F extends Record<string, Field<any>>>(
  prefix: string,
  fields: F,
): Items<F> {
  const entries = Object.entries(fields).map(([name, field]) => {
    const item = new Item(field);
    items.set(`${prefix}.${name}`, item);
    return [name, item];
  });
  return Object.fromEntries(entries);
}

/** The values of some items, by their names. */
export type Values<S> = { [K in keyof S]?: S[K] extends Item<infer T, any> ? T : never };

/** Changes several values at once. */
export function assign<S extends Record<string, Item<any, any>>>(
  state: S,
  values: Values<S>,
): void {
  batch(() => Object.entries(values).forEach(([name, value]) => (state[name].value = value)));
}

/** Gives every value of a chapter its initial one. */
export function resetState(state: Record<string, Item<any, any>>): void {
  batch(() => Object.values(state).forEach((item) => item.reset()));
}

/** The values that differ from their initial ones, as the query of a link. */
function changed(isKept: (field: Field<unknown>) => boolean): string {
  const query = new URLSearchParams();
  for (const [key, { text, initialText, field }] of items) {
    if (text !== initialText && isKept(field)) query.set(key, text);
  }
  return query.toString().replaceAll('%2C', ',');
}

/** All of them. */
export const stateText = computed(() => changed(() => true));

/** Those that a reader passes on: without answers to questions. */
export function sharedText(): string {
  return changed(({ isAnswer }) => !isAnswer);
}

/** Sets the state from a query. Returns complaints about what it could not use; those about a value
 * are also in its `problem`. */
export function readState(text: string): string[] {
  const query = new URLSearchParams(text);
  const complaints: string[] = [];
  batch(() => {
    for (const [key, item] of items) {
      const value = query.get(key);
      query.delete(key);
      if (item.refused.peek() === undefined && item.text === (value ?? item.initialText)) continue;
      item.reset();
      if (value !== null && !item.read(value)) complaints.push(`${key} ${item.problem.value}`);
    }
  });
  for (const key of query.keys()) complaints.push(t`this page has no “${key.slice(0, 24)}”`);
  return complaints;
}
