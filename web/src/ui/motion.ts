// When there is motion: while it is in sight, and if the visitor wants any.

import { signal } from '@preact/signals';

const stillness = () => matchMedia('(prefers-reduced-motion: reduce)');

export function wantsStillness(): boolean {
  return stillness().matches;
}

/** Whether the pointer holds a control: what follows it does not glide, and what is out of sight waits.
 * The document says so to the stylesheet. */
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

/** Calls `frame` for every frame in which the element is in sight; the browser itself draws none in a
 * hidden tab. Returns what ends that. */
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
