// Handles in a drawing of space that are dragged or moved with the arrow keys: points, and the view.

import { useRef } from 'preact/hooks';
import { t } from '../../language/text';
import type { Item } from '../../state/store';
import { assign } from '../../state/store';
import { alignedNumbers, listed } from '../../ui/numbers';
import { pointIn } from '../../ui/pointer';
import { length } from '../../ui/vectors';
import { add, type Space, times, type Vector } from './space';
import { LIMIT, state } from './state';

type Drag = (dx: number, dy: number) => void;

/** The pointer handlers of an element. `begin` returns the drag's handler, which gets the pointer's
 * offset from the start in pixels of the drawing. */
function useDrag(begin: () => Drag) {
  const follow = useRef<Drag | undefined>(undefined);
  const origin = useRef([0, 0]);
  return {
    onPointerDown(event: PointerEvent) {
      if (event.button !== 0) return;
      const element = event.currentTarget as SVGElement;
      element.setPointerCapture(event.pointerId);
      element.focus({ preventScroll: true });
      event.preventDefault();
      origin.current = pointIn(event);
      follow.current = begin();
    },
    onPointerMove(event: PointerEvent) {
      if (!(event.currentTarget as SVGElement).hasPointerCapture(event.pointerId)) return;
      const [x, y] = pointIn(event);
      follow.current?.(x - origin.current[0], y - origin.current[1]);
    },
  };
}

/** Calls the function of the pressed key. */
function onKeys(moves: Record<string, () => void>) {
  return (event: KeyboardEvent) => {
    const move = event.altKey || event.ctrlKey || event.metaKey ? undefined : moves[event.key];
    if (move === undefined) return;
    event.preventDefault();
    move();
  };
}

interface PointHandleProps {
  space: Space;
  name: string;
  item: Item<readonly number[]>;
  /** The start of the vector; 0 by default. */
  from?: Vector;
  colour: string;
}

const STEP = 0.1;
const MOST = length([LIMIT, LIMIT, LIMIT]);

/** Moves a point parallel to the picture. Page Up and Page Down move it towards the viewer and away. */
export function PointHandle({ space, name, item, from = [0, 0, 0], colour }: PointHandleProps) {
  const set = (to: Vector) => {
    item.value = to.map((v) => Math.round(100 * Math.min(LIMIT, Math.max(-LIMIT, v))) / 100);
  };
  const step = (direction: Vector, sign: number) => () =>
    set(add(item.value, times(direction, sign * STEP)));
  const drag = useDrag(() => {
    const start = item.value;
    return (dx, dy) => set(add(start, space.lift(dx, dy)));
  });
  const [cx, cy] = space.place(add(from, item.value));
  return (
    <g
      class="geo-point"
      role="slider"
      tabindex={0}
      aria-label={name}
      aria-valuemin={0}
      aria-valuemax={MOST}
      aria-valuenow={length(item.value)}
      aria-valuetext={listed(alignedNumbers(item.value))}
      {...drag}
      onKeyDown={onKeys({
        ArrowRight: step(space.right, 1),
        ArrowLeft: step(space.right, -1),
        ArrowUp: step(space.up, 1),
        ArrowDown: step(space.up, -1),
        PageUp: step(space.towards, 1),
        PageDown: step(space.towards, -1),
      })}
    >
      <circle class="geo-grip" cx={cx} cy={cy} r={22} />
      <circle class="geo-knob" cx={cx} cy={cy} r={7} fill={colour} />
    </g>
  );
}

const DEGREES = 5; // degrees per key press
const DEGREES_A_PIXEL = 0.5;

/** The background of a drawing. Dragging it turns the view of all drawings. */
export function ViewHandle({
  name,
  width,
  height,
}: Record<'width' | 'height', number> & { name: string }) {
  const { turn, tilt } = state;
  const set = (around: number, above: number) => {
    const wrapped = around - 360 * Math.round(around / 360);
    const within = Math.min(90, Math.max(-90, above));
    assign(state, { turn: Math.round(wrapped), tilt: Math.round(within) });
  };
  const step = (around: number, above: number) => () =>
    set(turn.value + around, tilt.value + above);
  const drag = useDrag(() => {
    const [around, above] = [turn.value, tilt.value];
    return (dx, dy) => set(around - DEGREES_A_PIXEL * dx, above + DEGREES_A_PIXEL * dy);
  });
  return (
    <rect
      class="geo-view"
      width={width}
      height={height}
      role="slider"
      tabindex={0}
      aria-label={name}
      aria-valuemin={-180}
      aria-valuemax={180}
      aria-valuenow={turn.value}
      aria-valuetext={t`${turn.value}° around, ${tilt.value}° above`}
      {...drag}
      onKeyDown={onKeys({
        ArrowRight: step(-DEGREES, 0),
        ArrowLeft: step(DEGREES, 0),
        ArrowUp: step(0, -DEGREES),
        ArrowDown: step(0, DEGREES),
      })}
    />
  );
}
