// Motion on the page: only in visible elements, and only if the visitor allows it.

import { signal } from '@preact/signals';

const stillness = () => matchMedia('(prefers-reduced-motion: reduce)');

export function wantsStillness(): boolean {
  return stillness().matches;
}

/** Whether a control is being dragged. Animations are then off, and invisible figures are not
 * redrawn. The style sheet reads data-dragging. */
export const dragging = signal(false);

export function followDrags(): void {
  const set = (value: boolean) => {
    dragging.value = value;
    document.documentElement.toggleAttribute('data-dragging', value);
  };
  addEventListener('pointerdown', ({ target, button }) => {
    set(button === 0 && (target as Element).closest('[role=slider], input') !== null);
  });
  for (const end of ['pointerup', 'pointercancel']) addEventListener(end, () => set(false));
}

/** Calls `frame` for every frame in which the element is visible; browsers draw no frames in a
 * hidden tab. Returns a function that stops it. */
export function whileInSight(element: Element, frame: (time: number) => void): () => void {
  let request = 0;
  let inSight = false;
  const turn = (time: number) => {
    frame(time);
    request = requestAnimationFrame(turn);
  };
  const start = () => {
    cancelAnimationFrame(request);
    if (inSight && !wantsStillness()) request = requestAnimationFrame(turn);
  };
  const observer = new IntersectionObserver((entries) => {
    inSight = entries.at(-1)!.isIntersecting;
    start();
  });
  const preference = stillness();
  observer.observe(element);
  preference.addEventListener('change', start);
  return () => {
    observer.disconnect();
    preference.removeEventListener('change', start);
    cancelAnimationFrame(request);
  };
}
