// Checks the animation of a vector, with frames in place of a browser's.

import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { vector } from '../state/fields';
import { Item } from '../state/store';
import { glide } from './glide';

let frames: (() => void)[];
let now: number;
let isStill: boolean;

beforeEach(() => {
  [frames, now, isStill] = [[], 0, false];
  vi.stubGlobal('requestAnimationFrame', (frame: () => void) => frames.push(frame));
  vi.stubGlobal('matchMedia', () => ({ matches: isStill }));
  vi.spyOn(performance, 'now').mockImplementation(() => now);
});
afterEach(() => {
  vi.unstubAllGlobals();
  vi.restoreAllMocks();
});

function frameAt(milliseconds: number): void {
  now = milliseconds;
  frames.splice(0).forEach((frame) => frame());
}

test('goes from the values to the new ones in 600 ms, and then ends', () => {
  const item = new Item<readonly number[]>(vector([0, 1]));
  glide(item, [1, 0.1 + 0.2]);
  expect(item.value).toEqual([0, 1]);
  frameAt(300);
  expect(item.value[0]).toBeCloseTo(0.5);
  frameAt(599);
  expect(item.value).not.toEqual([1, 0.3]);
  frameAt(600);
  expect(item.value).toEqual([1, 0.3]);
  expect(frames).toEqual([]);
});

test('leaves the values alone as soon as the reader changes them', () => {
  const item = new Item<readonly number[]>(vector([0, 1]));
  glide(item, [1, 0]);
  frameAt(300);
  item.value = [5, 5];
  frameAt(400);
  expect(item.value).toEqual([5, 5]);
  expect(frames).toEqual([]);
});

test('sets the values at once for readers who want no motion', () => {
  isStill = true;
  const item = new Item<readonly number[]>(vector([0, 1]));
  glide(item, [1, 0]);
  expect([item.value, frames]).toEqual([[1, 0], []]);
});
