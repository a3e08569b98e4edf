// Checks that the address and the state follow each other. A class stands for the browser's address.

import { afterEach, beforeEach, expect, test, vi } from 'vitest';

/** A browser's address and its history. Each link that the reader follows is a new entry. */
class Browser {
  entries: string[];
  at = 0;
  written: string[] = []; // the hashes that the page wrote
  #listeners: (() => void)[] = [];

  constructor(
    hash: string,
    readonly search = '',
  ) {
    this.entries = [hash];
    const browser = this;
    vi.stubGlobal('location', {
      get hash() {
        return browser.hash;
      },
      get href() {
        return `https://a.b/page/${browser.search}${browser.hash}`;
      },
      search,
    });
    vi.stubGlobal('history', {
      replaceState(_state: unknown, _title: string, link: string) {
        browser.entries[browser.at] = link;
        browser.written.push(link);
      },
    });
    vi.stubGlobal('addEventListener', (name: string, listener: () => void) => {
      expect(name).toBe('hashchange');
      this.#listeners.push(listener);
    });
  }
  get hash(): string {
    return this.entries[this.at] === '#' ? '' : this.entries[this.at];
  }
  /** The reader follows a link. */
  follow(hash: string): void {
    this.entries = [...this.entries.slice(0, ++this.at), hash];
    this.#listeners.forEach((listener) => listener());
  }
  back(): void {
    this.at--;
    this.#listeners.forEach((listener) => listener());
  }
}

/** Opens the page at an address. The modules are new ones, as after a reload. */
async function open(hash: string, search = '') {
  const browser = new Browser(hash, search);
  vi.resetModules();
  const link = await import('./link');
  const { defineState } = await import('./store');
  const { answer, number, flag } = await import('./fields');
  const state = defineState('t', {
    size: number({ min: 0, max: 9, step: 1, initial: 1 }),
    on: flag(true),
    guess: answer(['none', 'a', 'b']),
    note: { initial: '', write: (text: string) => text, read: (text: string) => text },
  });
  const opened: string[] = [];
  link.startLink(['one', 'two'], (chapter) => opened.push(chapter));
  return { browser, link, state, opened };
}

beforeEach(() => void vi.useFakeTimers());
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});
const settle = () => vi.advanceTimersByTime(1000);

test('an address gives its chapter and its state, and both are written back', async () => {
  const { browser, link, state, opened } = await open('#two?t.size=7');
  expect([link.currentChapter(), opened, state.size.value]).toEqual(['two', ['two'], 7]);
  settle();
  expect(browser.written).toEqual([]); // it is this address
  state.on.value = false;
  settle();
  expect(browser.hash).toBe('#two?t.size=7&t.on=0');
  state.size.reset();
  state.on.reset();
  settle();
  expect(browser.hash).toBe('#two');
});

test('a page without an address opens no chapter, and writes nothing', async () => {
  const { browser, link, opened } = await open('');
  settle();
  expect([opened, link.linkComplaints.value, browser.written]).toEqual([[], [], []]);
});

test('a drag writes the address once, when it has ended', async () => {
  const { browser, state } = await open('#one');
  for (let size = 2; size < 9; size++) {
    state.size.value = size;
    vi.advanceTimersByTime(100);
  }
  settle();
  expect(browser.written).toEqual(['#one?t.size=8']);
});

test('Back restores the chapter and the state of the address before', async () => {
  const { browser, link, state, opened } = await open('#one');
  state.size.value = 2;
  settle();
  browser.follow('#two?t.size=3');
  settle();
  expect([link.currentChapter(), state.size.value]).toEqual(['two', 3]);
  browser.back();
  settle();
  expect([link.currentChapter(), state.size.value]).toEqual(['one', 2]);
  expect(opened).toEqual(['one', 'two', 'one']);
  expect(browser.hash).toBe('#one?t.size=2');
});

test.each([
  ['#two%3Ft.size%3D7', 'all of it is escaped'],
  ['#two%3ft.size%3d7', 'in small letters'],
  ['#two?t.size%3D7', 'only the equals sign is escaped'],
])('%s is read: %s', async (hash, how) => {
  const { link, state } = await open(hash);
  expect(link.currentChapter()).toBe('two');
  expect(state.size.value).toBe(how.startsWith('only') ? 1 : 7); // a name may have an equals sign
});

test('an address that no escape explains breaks nothing', async () => {
  const { link, opened } = await open('#two%3F%E0%A4%A');
  expect([link.currentChapter(), opened]).toEqual(['', []]);
  expect(link.linkComplaints.value).toHaveLength(1);
});

test('a text in the state may have question marks', async () => {
  const { browser, state } = await open('#two?t.note=Who?+When?');
  expect(state.note.value).toBe('Who? When?');
  state.size.value = 2;
  settle();
  const again = await open(browser.hash);
  expect(again.state.note.value).toBe('Who? When?');
});

test('what an address has wrong is named until the reader changes a value', async () => {
  const name = 'three'.padEnd(40, '!');
  const { link, state, opened } = await open(`#${name}?t.size=99&t.on=0`);
  expect(state.on.value).toBe(false);
  expect(link.linkComplaints.value).toEqual([
    `“${name.slice(0, 24)}” is not a chapter of this page`,
    't.size is 99; it must be a whole number from 0 to 9',
  ]);
  expect([link.currentChapter(), opened]).toEqual(['', []]);
  settle();
  expect(link.linkComplaints.value).toHaveLength(2);
  state.on.value = true;
  expect(link.linkComplaints.value).toEqual([]);
});

test('going to a chapter writes the address at once and keeps the state', async () => {
  const { browser, link, state } = await open('#one?t.size=2');
  link.goTo('two');
  expect([browser.hash, link.currentChapter(), state.size.value]).toEqual([
    '#two?t.size=2',
    'two',
    2,
  ]);
});

test('a shared link has no answers, and a link to the whole page has the language', async () => {
  const { link, state } = await open('#one', '?lang=de&present=3');
  state.size.value = 4;
  state.guess.value = 'a';
  expect(link.linkTo('two')).toBe('#two?t.size=4&t.guess=a');
  expect(link.sharedLinkTo('two')).toBe('#two?t.size=4');
  expect(link.wholePageAt('two')).toBe('https://a.b/page/?lang=de#two?t.size=4&t.guess=a');
  const plain = await open('#one', '?present=3');
  expect(plain.link.wholePageAt('two')).toBe('https://a.b/page/#two');
});
