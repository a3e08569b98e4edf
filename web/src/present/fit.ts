// The size of a step: as large as the screen allows.

const LEAST = 0.75; // a taller step scrolls
const MOST = 2.5;
const SMALLER = 0.125;
const NATURAL = { width: 1000, height: 560 }; // the screen for which size 1 is right

const root = document.documentElement;
let size = 1;

function setSize(value: number): void {
  size = Math.max(LEAST, value);
  root.style.setProperty('--presenter-size', String(size));
}

/** Sets the size for the screen. */
export function enlarge(): void {
  setSize(Math.min(innerWidth / NATURAL.width, innerHeight / NATURAL.height, MOST));
}

/** Shrinks the section until it fits, and again when later results make it taller. Each change of
 * size triggers the next check. */
export function keepFitting(section: Element): () => void {
  const observer = new ResizeObserver(() => {
    if (size > LEAST && root.scrollHeight > innerHeight) setSize(size - SMALLER);
  });
  observer.observe(section);
  addEventListener('resize', enlarge);
  return () => {
    observer.disconnect();
    removeEventListener('resize', enlarge);
  };
}
