// Text, lines and discs on a canvas.

import { COLOURS } from './colours';
import type { Box, Context } from './figure';

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
