// Animates a vector to the values that a button sets.

import { tidy } from '../state/fields';
import type { Item } from '../state/store';
import { wantsStillness } from './motion';

const MILLISECONDS = 600;

/** Stops if the vector is changed in another way. Undo treats the whole animation as one gesture. */
export function glide(item: Item<readonly number[]>, to: readonly number[]): void {
  const end = to.map(tidy);
  if (wantsStillness()) {
    item.value = end;
    return;
  }
  const from = item.value;
  const start = performance.now();
  let last = from;
  const frame = () => {
    if (item.value !== last) return;
    const time = Math.min(1, (performance.now() - start) / MILLISECONDS);
    const part = time * time * (3 - 2 * time);
    item.value = last = time === 1 ? end : from.map((v, i) => v + part * (end[i] - v));
    if (time < 1) requestAnimationFrame(frame);
  };
  frame();
}
