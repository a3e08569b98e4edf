// Undo and redo. The history stores the whole state as text, once per gesture.

import { batch, computed, effect, signal } from '@preact/signals';
import { readState, stateText } from './store';

/** Changes within this time of each other are one gesture: a drag, or a held key. */
const GESTURE_MS = 400;
const MOST = 200;

const past = signal<string[]>([]);
const future = signal<string[]>([]);

export const canUndo = computed(() => past.value.length > 0);
export const canRedo = computed(() => future.value.length > 0);

let present = '';
let changedAt = -Infinity;

/** Starts recording. The link must have been read before. */
export function startHistory(): void {
  present = stateText.peek();
  effect(() => {
    const text = stateText.value;
    if (text === present) return;
    const now = performance.now();
    if (now - changedAt > GESTURE_MS) past.value = [...past.peek(), present].slice(-MOST);
    changedAt = now;
    present = text;
    future.value = [];
  });
}

/** Makes changes that undo skips. */
export function withoutHistory(change: () => void): void {
  batch(() => {
    change();
    present = stateText.peek(); // the effect must not count this as a gesture
    changedAt = -Infinity;
  });
}

export function undo(): void {
  travel(past, future);
}

export function redo(): void {
  travel(future, past);
}

function travel(from: typeof past, to: typeof past): void {
  const target = from.peek().at(-1);
  if (target === undefined) return;
  const left = present;
  from.value = from.peek().slice(0, -1);
  to.value = [...to.peek(), left];
  present = target; // not a gesture either
  changedAt = -Infinity;
  readState(target);
}
