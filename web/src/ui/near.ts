// Starts expensive work only when the reader scrolls near its result.

import { signal } from '@preact/signals';
import type { RefObject } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';

/** The part of the page that is loaded wherever the reader is. Set for printing. */
export const printedPart = signal<Element | undefined>(undefined);

/** Calls `start` when the element is less than a screen away, and again when the input changes. */
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
  const part = printedPart.value;
  useEffect(() => {
    if (part?.contains(element.current)) setNear(true);
  }, [part]);
  useEffect(() => {
    if (near) start();
  }, [near, JSON.stringify(input)]);
  return element;
}
