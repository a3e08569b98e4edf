// A named drawing as wide as its container, with a table of the same numbers.

import type { ComponentChildren, RefObject, VNode } from 'preact';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { dragging } from './motion';
import { SaveMenu } from './save-menu';
import { type VectorRow, VectorTable } from './table';

export interface FigureProps {
  /** A description for screen readers. */
  name: string;
  title?: string;
  /** The maximum width; by default the width of the container. */
  width?: number;
  height: number | ((width: number) => number);
  /** Draws the marks for this width. */
  draw(width: number): ComponentChildren;
  /** Elements above the marks that can be focused and dragged. */
  handles?(width: number): ComponentChildren;
  /** The numbers of the drawing as one table, … */
  rows?: VectorRow[];
  caption?: string; // by default the name
  /** … or as other tables. */
  children?: ComponentChildren;
}

/** A figure. While invisible, it is not redrawn during a drag, so that
 * visible figures follow the pointer. */
export function Figure(props: FigureProps) {
  const figure = useRef<HTMLElement>(null);
  const drawn = useRef<VNode>(undefined);
  const width = useWidth(figure);
  const inSight = useInSight(figure);
  if (!drawn.current || inSight.current || !dragging.value)
    drawn.current = drawFigure(props, figure, width);
  return drawn.current;
}

function drawFigure(props: FigureProps, figure: RefObject<HTMLElement | null>, width: number) {
  const { name, title, height, draw, handles, rows, caption = name, children } = props;
  const size = { width, height: typeof height === 'number' ? height : height(width) };
  const overlay = handles?.(width);
  return (
    <figure class="figure" ref={figure} style={{ maxWidth: props.width && `${props.width}px` }}>
      {title && <figcaption>{title}</figcaption>}
      <svg
        class="drawing"
        {...size}
        viewBox={`0 0 ${size.width} ${size.height}`}
        role={overlay ? 'group' : 'img'}
        aria-label={name}
      >
        <g aria-hidden="true">{draw(width)}</g>
        {overlay}
      </svg>
      <SaveMenu name={title ?? caption} figure={figure} />
      <div class="numbers">
        {rows && <VectorTable caption={caption} rows={rows} />}
        {children}
      </div>
    </figure>
  );
}

/** The width of the element, measured before the first paint and after every resize. */
function useWidth(element: { current: HTMLElement | null }): number {
  const [width, setWidth] = useState(640);
  useLayoutEffect(() => {
    const measure = () => {
      const room = Math.floor(element.current?.clientWidth ?? 0);
      if (room > 0) setWidth(room); // 0: it is not visible
    };
    const observer = new ResizeObserver(measure);
    observer.observe(element.current!);
    measure();
    return () => observer.disconnect();
  }, []);
  return width;
}

function useInSight(element: RefObject<Element | null>): RefObject<boolean> {
  const inSight = useRef(true);
  const [, redraw] = useState(true);
  useLayoutEffect(() => {
    const observer = new IntersectionObserver((entries) => {
      inSight.current = entries.at(-1)!.isIntersecting;
      if (dragging.peek()) redraw(inSight.current);
    });
    observer.observe(element.current!);
    return () => observer.disconnect();
  }, []);
  return inSight;
}
