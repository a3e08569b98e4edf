// The chapter in view: the one that crosses a line near the top of the window.

import { signal } from '@preact/signals';

export const chapterInView = signal('');

/** Tracks which of these sections is in view. */
export function watchChapters(sections: Iterable<Element>): () => void {
  const observer = new IntersectionObserver(
    (entries) => {
      for (const { isIntersecting, target } of entries) {
        if (isIntersecting) chapterInView.value = target.id;
        else if (chapterInView.peek() === target.id) chapterInView.value = '';
      }
    },
    { rootMargin: '-25% 0px -74% 0px' },
  );
  for (const section of sections) observer.observe(section);
  return () => observer.disconnect();
}
