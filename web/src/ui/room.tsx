// Reserved room for content that is loaded later, so that nothing moves.

import type { ComponentChildren } from 'preact';

/** An approximate height on a phone, beside the contents, and on a large screen. */
export type Height = [narrow: number, wide: number, widest: number];

/** The style of an element with this room; style.css has the widths. */
export function room([narrow, wide, widest]: Height) {
  return { '--narrow': `${narrow}px`, '--wide': `${wide}px`, '--widest': `${widest}px` };
}

/** A placeholder for a result. */
export function Wait({ height, children }: { height: Height; children: ComponentChildren }) {
  return (
    <p class="wait" style={room(height)}>
      {children}
    </p>
  );
}
