// The first seconds: Norm goes off by itself, the stream explodes, and Norm comes back.

import { effect, signal } from '@preact/signals';
import { query } from '../state/query';
import { wantsStillness } from '../ui/motion';
import { shown } from './measured';

/** Whether the demonstration shows the stack without Norm. The state keeps Norm on. */
export const demonstrating = signal(false);

const BEFORE_MS = 1000;
const OFF_MS = 3200; // the lanes change in 2 seconds

const INTERACTIONS = [
  'pointerdown',
  'keydown',
  'wheel',
  'touchstart',
  'scroll',
  'change',
  'hashchange',
  'beforeprint',
];

/** Demonstrates once, a second after the first measurement, unless the reader wants no motion or the
 * link has a chapter, a state or another view. The reader's first interaction ends it for good. */
export function demonstrate(): () => void {
  if (wantsStillness() || location.hash.length > 1 || query.has('present')) return () => {};
  const ended = new AbortController();
  const { signal } = ended;
  const end = () => {
    ended.abort();
    demonstrating.value = false;
  };
  for (const type of INTERACTIONS) {
    const options = { signal, passive: true, capture: true };
    addEventListener(type, (event) => !isOnSwitch(event) && end(), options);
  }
  const timers: ReturnType<typeof setTimeout>[] = [];
  const plan = () => {
    const show = () => (demonstrating.value = !document.hidden);
    timers.push(setTimeout(show, BEFORE_MS), setTimeout(end, BEFORE_MS + OFF_MS));
  };
  const unwatch = effect(() => {
    if (shown.value !== undefined && timers.length === 0) plan();
  });
  signal.addEventListener('abort', () => {
    unwatch();
    timers.forEach(clearTimeout);
  });
  return end;
}

/** Whether this is the press that is about to flip a switch. Its change ends the demonstration, so
 * that a switch shown as off is switched on. */
function isOnSwitch({ type, target }: Event): boolean {
  const isPress = ['pointerdown', 'touchstart', 'keydown'].includes(type);
  return isPress && target instanceof Element && target.closest('.switch') !== null;
}
