// The marks of drawings of space: axes, arrows, curves and surfaces.

import { Label, Line, type Point } from '../../ui/marks';
import { textWidth } from '../../ui/text-width';
import { add, type Curve, ONES, type Space, times, type Vector } from './space';

const ORIGIN: Vector = [0, 0, 0];
const AXIS = 2.1; // the length of an axis
const SUBSCRIPTS = '₁₂₃';

/** The axes of the three features, and the line along 1. */
export function Axes({ space }: { space: Space }) {
  return (
    <>
      {[0, 1, 2].map((i) => {
        const end = ORIGIN.map((_, j) => (i === j ? AXIS : 0));
        return (
          <g key={i}>
            <Line points={[ORIGIN, end].map(space.place)} width={1} class="zero" />
            <Name space={space} at={end} class="faint">
              {`x${SUBSCRIPTS[i]}`}
            </Name>
          </g>
        );
      })}
      <Line
        points={[-1.6, 1.6].map((factor) => space.place(times(ONES, factor)))}
        width={1.5}
        dash="6 5"
        class="mean"
      />
      <Name space={space} at={times(ONES, 1.6)} class="strong">
        1
      </Name>
    </>
  );
}

interface NameProps {
  space: Space;
  at: Vector;
  /** The start of the arrow; its name is beyond its end, … */
  from?: Vector;
  /** … or beside it, on the side away from this point. */
  clear?: Vector;
  colour?: string;
  class?: string;
  children: string;
}

export function Name({ space, at, from = ORIGIN, clear, class: name, ...rest }: NameProps) {
  const [x, y] = space.place(at);
  const [x0, y0] = space.place(from);
  const size = Math.hypot(x - x0, y - y0);
  const [dx, dy] = size < 1 ? [0, -1] : [(x - x0) / size, (y - y0) / size];
  let place: Point = [x + 16 * dx, y + 16 * dy];
  if (clear) {
    const [cx, cy] = space.place(clear);
    const side = dx * (cy - y) > dy * (cx - x) ? -1 : 1;
    const away = 0.5 * textWidth(rest.children, 600) * Math.abs(dy) + 11;
    place = [x - side * away * dy, y + side * away * dx];
  }
  return <Label {...rest} at={place} class={`halo ${name ?? ''}`} />;
}

interface ArrowProps {
  space: Space;
  from?: Vector;
  to: Vector;
  colour: string;
  width?: number;
  dash?: string;
}

interface NamedArrowProps extends ArrowProps {
  children: string;
}

const HEAD = 11;

export function Arrow({ space, from = ORIGIN, to, dash, width = 2.5, colour }: ArrowProps) {
  const points = [from, to].map(space.place);
  const [[x0, y0], [x, y]] = points;
  const isLong = Math.hypot(x - x0, y - y0) > HEAD;
  const arrow = isLong ? HEAD : undefined;
  return <Line points={points} {...{ colour, width, dash, arrow }} />;
}

/** An arrow whose end can be dragged. Its handle covers the dot. */
export function Tip({ space, from = ORIGIN, to, colour, width, children }: NamedArrowProps) {
  const [cx, cy] = space.place(to);
  return (
    <>
      <Line points={[from, to].map(space.place)} colour={colour} width={width} />
      <circle cx={cx} cy={cy} r={5} fill={colour} />
      <Name space={space} from={from} at={to} class="strong" colour={colour}>
        {children}
      </Name>
    </>
  );
}

/** Draws a curve; its part on the far side is thin. */
export function CurveLine({
  space,
  curve,
  colour,
}: {
  space: Space;
  curve: Curve;
  colour: string;
}) {
  return [false, true].map((front) => (
    <path
      key={String(front)}
      class={front ? 'line' : 'line geo-back'}
      d={pathOf(space, curve, front)}
      stroke={colour}
      stroke-width={front ? 2 : 1}
    />
  ));
}

function pathOf(space: Space, curve: Curve, front: boolean): string {
  const parts = curve.slice(1).map(({ at }, i) => {
    if (curve[i].front !== front) return '';
    const isFirst = i === 0 || curve[i - 1].front !== front;
    return `${isFirst ? `M${place(space, curve[i].at)}` : ''}L${place(space, at)}`;
  });
  return parts.join('');
}

const place = (space: Space, at: Vector) =>
  space
    .place(at)
    .map((v) => v.toFixed(1))
    .join(' ');

interface SurfaceProps {
  space: Space;
  points: readonly Vector[];
  colour: string;
}

/** The area inside a closed curve. */
export function Surface({ space, points, colour }: SurfaceProps) {
  const d = `M${points.map((at) => place(space, at)).join('L')}Z`;
  return <path class="geo-surface" d={d} fill={colour} />;
}

/** The directions in which a point on a curve or surface can move: a line, or the edge of a disc. */
export function Tangent({ space, points, colour }: SurfaceProps) {
  const d = `M${points.map((at) => place(space, at)).join('L')}`;
  return <path class="geo-tangent" d={d} fill={colour} stroke={colour} />;
}

/** A removed part: a line between two points without an arrow head. Its
 * name is placed where it fits. */
export function Taken({
  space,
  from = ORIGIN,
  to,
  colour,
  children,
}: Partial<NamedArrowProps> & ArrowProps) {
  const middle = times(add(from, to), 0.5);
  const points = [from, to].map(space.place);
  const [[x0, y0], [x, y]] = points;
  return (
    <>
      <Line points={points} colour={colour} width={1.5} dash="3 4" />
      {children && Math.hypot(x - x0, y - y0) > 24 && (
        <Name space={space} from={from} at={middle} clear={ORIGIN} colour={colour}>
          {children}
        </Name>
      )}
    </>
  );
}
