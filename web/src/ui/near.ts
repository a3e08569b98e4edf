// For what costs something: to start when the reader comes near.

import type { RefObject } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';

/** Starts once the element has been within a screen of sight, and again for each other input. */
export function useNear<E extends Element>(input: unknown, start: () => void): RefObject<E | null> {
  const element = useRef<E>(null);
  const [near, setNear] = useState(false);
  useEffect(() => {
    const observer = new IntersectionObserver(
      (entries) => entries.some((entry) => entry.isIntersecting) && setNear(true),
      { rootMargin: '100% 0px' },
    );
    observer.observe(element.current!);
    return () => observer.disconnect();
  }, []);
  useEffect(() => {
    if (near) start();
  }, [near, JSON.stringify(input)]);
  return element;
}
