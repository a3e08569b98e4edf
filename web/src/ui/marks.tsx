// Basic marks of drawings: text and lines, in pixels. Colours are CSS variables.

import { line } from 'd3-shape';
import type { ComponentChildren } from 'preact';

export interface Box {
  x: number;
  y: number;
  width: number;
  height: number;
}

export type Point = readonly [x: number, y: number];

interface LabelProps {
  at: Point;
  anchor?: 'start' | 'middle' | 'end';
  colour?: string;
  /** "strong", "faint", "halo" (in the background's colour, over lines), or several. */
  class?: string;
  children: ComponentChildren;
}

/** Text whose middle line is at the point. */
export function Label({
  at: [x, y],
  anchor = 'middle',
  colour,
  class: name,
  children,
}: LabelProps) {
  return (
    <text x={x} y={y} dy="0.35em" text-anchor={anchor} fill={colour} class={name}>
      {children}
    </text>
  );
}

export const LINE = 15; // the distance of lines of text

/** Lines of text that begin at x; the middle of the first one is at y. */
export function Lines({ at: [x, y], lines }: { at: Point; lines: readonly string[] }) {
  return lines.map((line, i) => (
    <Label key={i} at={[x, y + LINE * i]} anchor="start" class="faint">
      {line}
    </Label>
  ));
}

const pathThrough = line<Point>();

interface LineProps {
  points: readonly Point[];
  colour?: string;
  width?: number;
  dash?: string;
  arrow?: number; // the size of an arrow head at the end
  class?: string;
}

export function Line({ points, colour, width = 2, dash, arrow, class: name = '' }: LineProps) {
  const stroke = {
    stroke: colour ?? 'currentColor',
    'stroke-width': width,
    'stroke-dasharray': dash,
  };
  return (
    <>
      <path class={`line ${name}`} d={pathThrough(points)!} {...stroke} />
      {arrow && <Arrow points={points} size={arrow} colour={colour} />}
    </>
  );
}

/** An arrow head at the last of the points. */
function Arrow({
  points,
  size,
  colour,
}: {
  points: readonly Point[];
  size: number;
  colour?: string;
}) {
  const [[x0, y0], [x, y]] = points.slice(-2);
  const angle = (180 / Math.PI) * Math.atan2(y - y0, x - x0);
  const [back, side] = [-0.9 * size, 0.43 * size];
  return (
    <path
      d={`M0 0L${back} ${side}V${-side}Z`}
      transform={`translate(${x} ${y}) rotate(${angle})`}
      fill={colour}
    />
  );
}

/** A horizontal line from one side of a box to the other. */
export function Across({
  box: { x, width },
  y,
  ...style
}: { box: Pick<Box, 'x' | 'width'>; y: number } & Omit<LineProps, 'points'>) {
  const points = [[x, y] as const, [x + width, y] as const];
  return <Line points={points} width={1} {...style} />;
}

/** The attributes of a part of a drawing that can be pressed by pointer or keyboard. */
export function pressable(name: string, press: () => void) {
  return {
    role: 'button',
    tabindex: 0,
    'aria-label': name,
    onClick: press,
    onKeyDown: (event: KeyboardEvent) => {
      if (event.key !== 'Enter' && event.key !== ' ') return;
      event.preventDefault();
      press();
    },
  } as const;
}
