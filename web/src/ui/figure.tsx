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

export interface TextStyle {
  size?: number;
  colour?: string;
  align?: CanvasTextAlign;
  bold?: boolean;
  halo?: boolean; // of the ground's colour, over lines
}

export function drawText(
  context: Context,
  text: string,
  x: number,
  y: number,
  style: TextStyle = {},
) {
  context.font = fontOf(style);
  context.fillStyle = style.colour ?? COLOURS.text;
  context.textAlign = style.align ?? 'center';
  context.textBaseline = 'middle';
  if (style.halo) {
    context.strokeStyle = COLOURS.ground;
    context.lineWidth = 3;
    context.lineJoin = 'round';
    context.strokeText(text, x, y);
  }
  context.fillText(text, x, y);
}

/** How wide a text is drawn. */
export function textWidth(context: Context, text: string, size: number): number {
  context.font = fontOf({ size });
  return context.measureText(text).width;
}

function fontOf({ bold, size = 12 }: TextStyle): string {
  return `${bold ? '600 ' : ''}${size}px system-ui, sans-serif`;
}

interface LineStyle {
  width?: number;
  dash?: number[];
  arrow?: number; // the size of one at the end
}

/** A horizontal line from one side of a box to the other. */
export function drawAcross(
  context: Context,
  { x, width }: Pick<Box, 'x' | 'width'>,
  y: number,
  colour: string,
  style: LineStyle = { width: 1 },
) {
  drawLine(context, [x, y, x + width, y], colour, style);
}

/** The coordinates x, y of a line's points, one after the other. */
export type Points = readonly number[];

export function drawLine(
  context: Context,
  points: Points,
  colour: string,
  { width = 2, dash = [], arrow = 0 }: LineStyle = {},
) {
  context.strokeStyle = context.fillStyle = colour;
  context.lineWidth = width;
  context.setLineDash(dash);
  context.beginPath();
  context.moveTo(points[0], points[1]);
  for (let i = 2; i < points.length; i += 2) context.lineTo(points[i], points[i + 1]);
  context.stroke();
  context.setLineDash([]);
  if (arrow === 0) return;
  const [x0, y0, x1, y1] = points.slice(-4);
  const angle = Math.atan2(y1 - y0, x1 - x0);
  context.beginPath();
  context.moveTo(x1, y1);
  for (const side of [-0.45, 0.45]) {
    context.lineTo(x1 - arrow * Math.cos(angle + side), y1 - arrow * Math.sin(angle + side));
  }
  context.closePath();
  context.fill();
}

export type Point = readonly [x: number, y: number];

export function drawDisc(context: Context, [x, y]: Point, radius: number, colour: string) {
  context.fillStyle = colour;
  context.beginPath();
  context.arc(x, y, radius, 0, 2 * Math.PI);
  context.fill();
}
