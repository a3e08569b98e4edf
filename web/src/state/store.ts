// The state of the page: every value that a reader can change and a link keeps.

import { batch, computed, signal } from '@preact/signals';
import { t } from '../language/text';
import { type Field, FieldError } from './fields';

/** A value of the state. A component or effect that reads `.value` runs again when it changes. */
export class Item<T, F extends Field<T> = Field<T>> {
  readonly #value;
  /** The last text if it was invalid, with its problem. */
  readonly refused = signal<{ text: string; problem: string } | undefined>(undefined);
  /** The problem as the end of a sentence; '' if there is none. */
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
  /** The value as text in a link. */
  get text(): string {
    return this.field.write(this.value);
  }
  /** Sets the value from a text. After an invalid text, the value stays
   * and `problem` has the reason. */
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
  get isChanged(): boolean {
    return this.text !== this.initialText;
  }
}

export type Items<F extends Record<string, Field<any>>> = {
  [K in keyof F]: F[K] extends Field<infer T> ? Item<T, F[K]> : never;
};

const items = new Map<string, Item<any, any>>();

/** Defines the state of one chapter. In a link, its values are named `prefix.name`. */
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

/** Resets every value of a chapter to its initial one. */
export function resetState(state: Record<string, Item<any, any>>): void {
  batch(() => Object.values(state).forEach((item) => item.reset()));
}

/** The values that differ from their initial ones, as the query of a link. */
function changed(isKept: (field: Field<unknown>) => boolean): string {
  const query = new URLSearchParams();
  for (const [key, item] of items) {
    if (item.isChanged && isKept(item.field)) query.set(key, item.text);
  }
  return query.toString().replaceAll('%2C', ',');
}

/** The state with all values. */
export const stateText = computed(() => changed(() => true));

/** The state for sharing: without answers to questions. */
export function sharedText(): string {
  return changed(({ isAnswer }) => !isAnswer);
}

/** Sets the state from a query. Returns complaints about the parts that it could not use.
 * Complaints about a value are also in its `problem`. */
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
