// Prints a chapter or the whole page. What is printed is loaded and computed first; the style sheet
// defines the looks.

import { signal } from '@preact/signals';
import { type Chapter, onRoute } from '../chapters';
import { linkTo } from '../state/link';
import { printedPart } from '../ui/near';
import { isDark } from '../ui/theme';
import './style.css';

/** The address of the page in this state, printed on the handout. */
export const address = signal('');

/** Whether a handout is being prepared. */
export const preparing = signal(false);

const QUIET_MS = 700;
const LONGEST_MS = 30_000;

/** Prints one chapter, or by default all, with figures drawn for the width of the paper. */
export async function printHandout(chapter?: Chapter): Promise<void> {
  const { dataset } = document.documentElement;
  const id = chapter?.source.id;
  preparing.value = true;
  dataset.view = 'print';
  const section = id === undefined ? null : document.getElementById(id);
  section?.setAttribute('data-printed', '');
  tellAddress(id); // before print(), so that it is rendered in time
  load(chapter ? [chapter] : onRoute.value, section ?? document.body);
  await quiet(section ?? document.querySelector('main')!);
  preparing.value = false;
  const end = () => {
    delete dataset.view;
    section?.removeAttribute('data-printed');
  };
  addEventListener('afterprint', end, { once: true });
  print();
}

function tellAddress(chapter = ''): void {
  address.value = new URL(linkTo(chapter), location.href).href;
}

function load(wanted: readonly Chapter[], part: Element): void {
  printedPart.value = part;
  wanted.forEach((chapter) => void chapter.load());
}

/** Waits until all computations in a part of the page are done and it has not changed for a moment. */
async function quiet(part: Element): Promise<void> {
  const began = performance.now();
  let changed = began;
  const observer = new MutationObserver(() => (changed = performance.now()));
  observer.observe(part, {
    childList: true,
    subtree: true,
    attributes: true,
  });
  const computing = () => part.querySelector('.chapter-room, .wait, [aria-busy=true]') !== null;
  const isQuiet = () => performance.now() - changed > QUIET_MS && !computing();
  while (!isQuiet() && performance.now() - began < LONGEST_MS) {
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  observer.disconnect();
}

/** Uses the light theme on paper. The browser's own print command prints only the loaded chapters
 * and marks the missing ones. */
export function prepareWhenAsked(): void {
  const { dataset } = document.documentElement;
  addEventListener('beforeprint', () => {
    dataset.theme = 'light';
    if (dataset.view === 'print') return; // printHandout() has done the rest
    tellAddress();
    load(onRoute.value, document.body);
  });
  addEventListener('afterprint', () => {
    dataset.theme = isDark.value ? 'dark' : 'light';
    printedPart.value = undefined;
  });
}
