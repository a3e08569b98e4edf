// When there is motion: while it is in sight, and if the visitor wants any.

const stillness = () => matchMedia('(prefers-reduced-motion: reduce)');

export function wantsStillness(): boolean {
  return stillness().matches;
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
