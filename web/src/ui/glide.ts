// Moves a vector to where a button puts it, so that the eye can follow.

import { tidy } from '../state/fields';
import type { Item } from '../state/store';
import { wantsStillness } from './motion';

const MILLISECONDS = 600;

/** Ends early where the vector is changed otherwise. For undo the whole way is one gesture. */
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
