// The state in the address: #chapter?an.gamma=1.5&… Opening the link restores exactly this state.

import { effect, signal } from '@preact/signals';
import { t } from '../language/text';
import { query } from './query';
import { readState, sharedText, stateText } from './store';

/** Complaints about parts of a link that could not be used. The reader's next change clears them. */
export const linkComplaints = signal<string[]>([]);

/** Milliseconds between changes of the address. Browsers limit their rate. */
const WRITE_MS = 300;

const chapter = signal('');
let read = ''; // the last state read from the address

/** The chapter in the address. */
export function currentChapter(): string {
  return chapter.value;
}

/** The address of this state, at this chapter. */
export function linkTo(id: string, state = stateText.peek()): string {
  return `#${id}${state && `?${state}`}`;
}

/** The same address without the reader's answers, for sharing. */
export function sharedLinkTo(id: string): string {
  return linkTo(id, sharedText());
}

/** The address of the whole page at a chapter, with the state and the chosen language. */
export function wholePageAt(id: string, link = linkTo(id)): string {
  const url = new URL(link, location.href);
  const language = query.get('lang');
  url.search = language === null ? '' : new URLSearchParams({ lang: language }).toString();
  return url.href;
}

/** Reads the address, and from then on keeps state and address in sync.
 * `open` shows one of the `chapters`. */
export function startLink(chapters: string[], open: (chapter: string) => unknown): void {
  const readAddress = () => {
    const [id, text] = splitHash(location.hash);
    const known = id === '' || chapters.includes(id);
    chapter.value = known ? id : '';
    const complaints = readState(text);
    read = stateText.peek();
    linkComplaints.value = known
      ? complaints
      : [t`“${id.slice(0, 24)}” is not a chapter of this page`, ...complaints];
    if (chapter.peek() !== '') open(chapter.peek());
  };
  readAddress();
  addEventListener('hashchange', readAddress);

  let timer: ReturnType<typeof setTimeout> | undefined;
  effect(() => {
    if (stateText.value !== read) linkComplaints.value = [];
    clearTimeout(timer);
    timer = setTimeout(write, WRITE_MS);
  });
}

/** Goes to a chapter without changing the state. */
export function goTo(id: string): void {
  chapter.value = id;
  write();
}

function write(): void {
  const link = linkTo(chapter.peek());
  if (link === (location.hash || '#')) return;
  history.replaceState(null, '', link);
}

/** Splits a hash into chapter and query. Programs that share links may
 * have percent-encoded all of it. */
function splitHash(hash: string): [string, string] {
  const whole = hash.includes('?') ? hash : hash.replace(/%3F.*/i, unescaped);
  const [id, ...query] = whole.slice(1).split('?');
  return [id, query.join('?')];
}

function unescaped(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
