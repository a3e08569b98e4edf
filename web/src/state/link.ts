// The state in the address: #chapter?an.gamma=1.5&… A link reopens exactly this.

import { effect, signal } from '@preact/signals';
import { t } from '../language/text';
import { query } from './query';
import { readState, sharedText, stateText } from './store';

/** The parts of a link that the page could not use. Cleared at the reader's next change. */
export const linkComplaints = signal<string[]>([]);

/** Browsers limit how often the address may change. */
const WRITE_MS = 300;

const chapter = signal('');
let written = ''; // the hash that is ours
let read = ''; // the state that the address gave

/** The chapter that the address names. */
export function currentChapter(): string {
  return chapter.value;
}

/** The address of the state as it is, at this chapter. */
export function linkTo(id: string, state = stateText.peek()): string {
  return `#${id}${state && `?${state}`}`;
}

/** The same to pass on. */
export function sharedLinkTo(id: string): string {
  return linkTo(id, sharedText());
}

/** The whole page at a chapter, in the state as it is and in the language that was asked for. */
export function wholePageAt(id: string, link = linkTo(id)): string {
  const url = new URL(link, location.href);
  const language = query.get('lang');
  url.search = language === null ? '' : new URLSearchParams({ lang: language }).toString();
  return url.href;
}

/** Reads the address, and keeps state and address together from then on. `open` shows one of the
 * `chapters`. */
export function startLink(chapters: string[], open: (chapter: string) => unknown): void {
  const readAddress = () => {
    if (location.hash === written) return;
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

/** Goes to a chapter and keeps the state. */
export function goTo(id: string): void {
  chapter.value = id;
  write();
}

function write(): void {
  const link = linkTo(chapter.peek());
  if (link === (location.hash || '#')) return;
  history.replaceState(null, '', link);
  written = location.hash;
}

/** Chapter and query. Programs that pass links on may have percent-encoded all of it. */
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
