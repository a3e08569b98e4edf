// The state in the address: #chapter?an.gamma=1.5&… A link reopens exactly this.

import { effect, signal } from '@preact/signals';
import { readState, stateText } from './store';

/** What a link held that the page could not use. */
export const linkComplaints = signal<string[]>([]);

/** Browsers allow few changes of the address a second. */
const WRITE_MS = 300;

let chapter = '';
let written = '';

/** The address of the state as it is, at this chapter or the one that was opened last. */
export function linkTo(id = chapter): string {
  const query = stateText.peek();
  return `#${id}${query && `?${query}`}`;
}

/** Reads the address, and keeps state and address together from then on. `open` shows a chapter. */
export function startLink(open: (chapter: string) => void): void {
  const read = () => {
    if (location.hash === written) return;
    const [id, query = ''] = splitHash(location.hash);
    chapter = id;
    linkComplaints.value = readState(query);
    if (id !== '') open(id);
  };
  read();
  addEventListener('hashchange', read);

  let timer: ReturnType<typeof setTimeout> | undefined;
  effect(() => {
    if (stateText.value === splitHash(location.hash)[1]) return;
    clearTimeout(timer);
    timer = setTimeout(write, WRITE_MS);
  });
}

/** Goes to a chapter and keeps the state. */
export function goTo(id: string): void {
  chapter = id;
  write();
}

function write(): void {
  written = linkTo() || '#';
  history.replaceState(null, '', written);
  written = location.hash;
}

function splitHash(hash: string): [string, string] {
  const mark = hash.indexOf('?');
  if (mark < 0) return [hash.slice(1), ''];
  return [hash.slice(1, mark), hash.slice(mark + 1)];
}
