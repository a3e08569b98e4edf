// Prints the page. Everything is loaded and computed first; the style sheet defines the looks.

import { signal } from '@preact/signals';
import { chapters } from '../chapters';
import { linkTo } from '../state/link';
import { everythingIsNear } from '../ui/near';
import { isDark } from '../ui/theme';
import './style.css';

/** The address of the page in this state, printed on the handout. */
export const address = signal('');

/** Whether a handout is being prepared. */
export const preparing = signal(false);

const QUIET_MS = 700;
const LONGEST_MS = 30_000;

/** Prints all chapters, with figures drawn for the width of the paper. */
export async function printHandout(): Promise<void> {
  const { dataset } = document.documentElement;
  preparing.value = true;
  dataset.view = 'print';
  tellAddress(); // before print(), so that it is rendered in time
  loadEverything();
  await quiet();
  preparing.value = false;
  addEventListener('afterprint', () => delete dataset.view, { once: true });
  print();
}

function tellAddress(): void {
  address.value = new URL(linkTo(''), location.href).href;
}

function loadEverything(): void {
  everythingIsNear.value = true;
  chapters.forEach((chapter) => void chapter.load());
}

/** Waits until all computations are done and the page has not changed for a moment. */
async function quiet(): Promise<void> {
  const began = performance.now();
  let changed = began;
  const observer = new MutationObserver(() => (changed = performance.now()));
  observer.observe(document.querySelector('main')!, {
    childList: true,
    subtree: true,
    attributes: true,
  });
  const computing = () => document.querySelector('.chapter-room, .wait, [aria-busy=true]') !== null;
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
    tellAddress();
    dataset.theme = 'light';
    loadEverything();
  });
  addEventListener('afterprint', () => (dataset.theme = isDark.value ? 'dark' : 'light'));
}
