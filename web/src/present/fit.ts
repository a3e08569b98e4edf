// How large a step is shown: as large as the screen allows.

const LEAST = 0.75; // what is higher still scrolls
const MOST = 2.5;
const SMALLER = 0.125;
const NATURAL = { width: 1000, height: 560 }; // of a screen for which 1 is right

const root = document.documentElement;
let size = 1;

function setSize(value: number): void {
  size = Math.max(LEAST, value);
  root.style.setProperty('--presenter-size', String(size));
}

/** As large as the screen suggests. */
export function enlarge(): void {
  setSize(Math.min(innerWidth / NATURAL.width, innerHeight / NATURAL.height, MOST));
}

/** Makes the section smaller until it fits, also when results come later. Each try changes its size,
 * which leads to the next. */
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
