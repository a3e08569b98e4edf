// The chapter that a reader is at: the one that crosses a line near the top of the window.

import { signal } from '@preact/signals';

export const chapterInView = signal('');

/** Follows the reader over these sections. */
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
