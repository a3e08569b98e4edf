// A canvas with a name, a table of the same numbers, and an overlay.

import { effect } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { COLOURS } from './colours';
import { type VectorRow, VectorTable } from './table';

export interface Size {
  width: number;
  height: number;
}

export interface Box {
  x: number;
  y: number;
  width: number;
  height: number;
}

/** A 2D context in CSS pixels of the figure's own size, at whatever size it is shown. */
export type Context = CanvasRenderingContext2D;

export interface FigureProps {
  /** For screen readers: what is drawn. */
  name: string;
  /** The size the drawing is made for. */
  size: Size;
  /** Another size, and so another drawing, where the page is narrower than `size.width`. */
  narrow?: Size;
  /** Draws on the dark background. Runs again when a signal that it reads changes. */
  draw(context: Context, size: Size): void;
  /** The overlay of the canvas, such as BarHandles, for the size that is drawn. */
  overlay?(size: Size): ComponentChildren;
  /** The numbers of the drawing, as one table … */
  rows?: VectorRow[];
  caption?: string; // the name unless given
  /** … or as other tables. */
  children?: ComponentChildren;
}

export function Figure(props: FigureProps) {
  const { name, size, narrow, draw, overlay, rows, caption = name, children } = props;
  const box = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const [width, setWidth] = useState(size.width);
  const drawn = narrow !== undefined && width < size.width * 0.93 ? narrow : size;

  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => setWidth(entry.contentRect.width));
    observer.observe(box.current!.parentElement!);
    return () => observer.disconnect();
  }, []);

  useEffect(() => {
    const shown = Math.min(width, drawn.width);
    return effect(() => paint(canvas.current!, drawn, shown, draw));
  }, [drawn, width, draw]);

  return (
    <figure class="figure">
      <div class="figure-box" ref={box} style={{ maxWidth: `${drawn.width}px` }}>
        <canvas
          ref={canvas}
          role="img"
          aria-label={name}
          style={{ aspectRatio: `${drawn.width} / ${drawn.height}` }}
        />
        {overlay?.(drawn)}
      </div>
      <div class="numbers">
        {rows && <VectorTable caption={caption} rows={rows} />}
        {children}
      </div>
    </figure>
  );
}

/** The style of an element that lies over this part of a figure. */
export function placed({ x, y, width, height }: Box, size: Size) {
  return {
    left: `${(100 * x) / size.width}%`,
    top: `${(100 * y) / size.height}%`,
    width: `${(100 * width) / size.width}%`,
    height: `${(100 * height) / size.height}%`,
  };
}

function paint(canvas: HTMLCanvasElement, size: Size, shown: number, draw: FigureProps['draw']) {
  const scale = (shown / size.width) * (window.devicePixelRatio || 1);
  const [width, height] = [Math.round(size.width * scale), Math.round(size.height * scale)];
  if (canvas.width !== width) canvas.width = width;
  if (canvas.height !== height) canvas.height = height;
  const context = canvas.getContext('2d')!;
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.fillStyle = COLOURS.ground;
  context.fillRect(0, 0, size.width, size.height);
  draw(context, size);
}
