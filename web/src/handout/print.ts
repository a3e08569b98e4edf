// The page on paper. The style sheet has its looks; here everything is loaded and computed first.

import { signal } from '@preact/signals';
import { chapters } from '../chapters';
import { linkTo } from '../state/link';
import { everythingIsNear } from '../ui/near';
import { isDark } from '../ui/theme';
import './style.css';

/** Where the reader of a handout finds the page in this state. */
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
  tellAddress(); // at print() itself it would come too late to be drawn
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

/** Waits until nothing is being computed and nothing has changed for a moment. */
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

/** Paper is white, whatever the theme. The browser's own command prints what has been loaded by then,
 * and says where something is missing. */
export function prepareWhenAsked(): void {
  const { dataset } = document.documentElement;
  addEventListener('beforeprint', () => {
    tellAddress();
    dataset.theme = 'light';
    loadEverything();
  });
  addEventListener('afterprint', () => (dataset.theme = isDark.value ? 'dark' : 'light'));
}
