// Checks the position of a presentation on a page of three chapters, with 3, 1 and 2 steps.

import { beforeEach, expect, test, vi } from 'vitest';

vi.mock('../chapters', () => ({
  onRoute: { value: ['one', 'two', 'three'].map((id) => ({ source: { id } })) },
}));
const STEPS = { one: 3, two: 1, three: 2 };

let chapter: { value: string };

/** Opens the presentation at an address, as after a reload; its first chapter has been loaded. */
async function open(present: string) {
  vi.resetModules();
  const { signal } = await import('@preact/signals');
  const current = (chapter = signal(''));
  vi.doMock('../state/link', () => ({
    currentChapter: () => current.value,
    goTo: (id: string) => (current.value = id),
  }));
  vi.doMock('../state/query', () => ({ query: new URLSearchParams({ present }) }));
  return import('./place');
}

type Place = Awaited<ReturnType<typeof open>>;

const at = ({ place, step }: Place) => [place.value, step.value];

/** The current chapter has been loaded. */
function load(page: Place, count = STEPS[(chapter.value || 'one') as keyof typeof STEPS]) {
  page.setSteps(Array.from({ length: count }, () => []));
}

beforeEach(() => void vi.resetModules());

test.each([
  ['', 0],
  ['1', 0],
  ['3', 2],
  ['9', 2],
  ['0', 0],
  ['-3', 0],
  ['x', 0],
])('?present=%s begins at step %i from 0', async (present, step) => {
  const page = await open(present);
  expect(at(page)).toEqual([0, -1]); // nothing has been loaded
  load(page);
  expect(at(page)).toEqual([0, step]);
});

test('an unknown chapter is the first one', async () => {
  const page = await open('');
  chapter.value = 'nonsense';
  expect(page.place.value).toBe(0);
});

test('on and back go through the steps of all chapters, and stop at both ends', async () => {
  const page = await open('');
  load(page);
  const seen = [at(page)];
  const go = (move: () => void) => {
    const from = page.place.value;
    move();
    if (page.place.value !== from) {
      expect(page.step.value).toBe(-1); // not the steps of the chapter before
      move(); // too early: nothing has been loaded
      load(page);
    }
    seen.push(at(page));
  };
  for (let i = 0; i < 6; i++) go(page.next);
  expect(seen.splice(0)).toEqual([
    [0, 0],
    [0, 1],
    [0, 2],
    [1, 0],
    [2, 0],
    [2, 1],
    [2, 1],
  ]);
  for (let i = 0; i < 6; i++) {
    const from = page.place.value;
    page.back();
    if (page.place.value !== from) load(page);
    seen.push(at(page));
  }
  expect(seen).toEqual([
    [2, 0],
    [1, 0],
    [0, 2],
    [0, 1],
    [0, 0],
    [0, 0],
  ]);
});

test('a requested step may appear later, but the last step is the last of those found', async () => {
  const page = await open('3');
  load(page, 1);
  expect(at(page)).toEqual([0, 0]);
  load(page, 3);
  expect(at(page)).toEqual([0, 2]);
  page.goToStep(1, 0);
  load(page);
  page.back();
  load(page, 2);
  expect(at(page)).toEqual([0, 1]);
  load(page, 3);
  expect(at(page)).toEqual([0, 1]);
});

test('a chapter that the reader chose otherwise begins at its first step', async () => {
  const page = await open('3');
  load(page);
  chapter.value = 'three';
  page.setSteps([]);
  load(page);
  expect(at(page)).toEqual([2, 0]);
});
