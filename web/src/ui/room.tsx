// Room that is kept for what comes later, so that nothing moves when it comes.

import type { ComponentChildren } from 'preact';

/** About how high something is: on a phone, beside the contents, and on a large screen. */
export type Height = [narrow: number, wide: number, widest: number];

/** The style of an element that keeps this room; style.css has the widths. */
export function room([narrow, wide, widest]: Height) {
  return { '--narrow': `${narrow}px`, '--wide': `${wide}px`, '--widest': `${widest}px` };
}

/** Stands where a result will be. */
export function Wait({ height, children }: { height: Height; children: ComponentChildren }) {
  return (
    <p class="wait" style={room(height)}>
      {children}
    </p>
  );
}
