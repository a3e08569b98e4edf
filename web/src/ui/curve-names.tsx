// The names of a chart's curves: at their ends if there is room, else in rows above the plot.

import { type Curve, type Places, yOf } from './curves';
import { EDGE } from './line-chart';
import { Label, Line } from './marks';
import { textWidth } from './text-width';

const LINE = 16;
const SAMPLE = 22; // the length of the line before a name
const GAP = 16;

/** The width of the names at the right end; null if they take too much room. */
export function namesBeside(curves: readonly Curve[], size: { width: number; height: number }) {
  const room = Math.max(0, ...curves.map(({ name }) => textWidth(name, 600))) + SAMPLE;
  const isCrowded = room > 0.3 * size.width || curves.length * LINE > 0.7 * size.height;
  return isCrowded ? null : Math.ceil(room);
}

/** The height of the names in rows. */
export function namesHeight(curves: readonly Curve[], width: number): number {
  return 8 + LINE * (1 + Math.max(0, ...inRows(curves, width - EDGE).map(({ row }) => row)));
}

function inRows(curves: readonly Curve[], width: number): { x: number; row: number }[] {
  let [x, row] = [EDGE, 0];
  return curves.map(({ name }) => {
    const length = SAMPLE + 5 + textWidth(name, 600);
    if (x > EDGE && x + length > width) [x, row] = [EDGE, row + 1];
    const place = { x, row };
    x += length + GAP;
    return place;
  });
}

interface CurveNamesProps extends Places {
  curves: readonly Curve[];
  beside: boolean;
}

/** The values of the line, or the upper edge of a band without one. */
const lineOf = ({ values, band }: Curve) => (values.length > 0 ? values : (band?.high ?? []));

export function CurveNames(props: CurveNamesProps) {
  return props.beside ? <AtEnds {...props} /> : <InRows {...props} />;
}

function AtEnds({ curves, ...places }: CurveNamesProps) {
  const { x, plot, xScale } = places;
  const right = plot.x + plot.width;
  const floor = plot.y + plot.height;
  const drawn = curves.flatMap((curve) => {
    const values = lineOf(curve);
    const last = values.findLastIndex((v, i) => v != null && xScale(x[i]) <= right + 1);
    if (last === -1) return [];
    const end = Math.min(floor, Math.max(plot.y, yOf(places, values[last]!)));
    return [{ curve, end, at: xScale(x[last]) }];
  });
  const ends = apart(
    drawn.map(({ end }) => end),
    plot.y,
    floor,
  );
  return drawn.map(({ curve, end, at }, i) => (
    <g key={curve.name} class="curve-name">
      {/* A curve that ends early is connected with its name. */}
      {at < right - SAMPLE && (
        <Line
          points={[
            [at + 6, end],
            [right, end],
          ]}
          width={1}
          colour={curve.colour}
          dash="1 4"
          class="leader"
        />
      )}
      <Line
        points={[
          [right + 1, end],
          [right + SAMPLE - 6, ends[i]],
        ]}
        width={1}
        colour={curve.colour}
        dash={curve.dash}
        class="leader"
      />
      <Label at={[right + SAMPLE - 4, ends[i]]} anchor="start" class="strong" colour={curve.colour}>
        {curve.name}
      </Label>
    </g>
  ));
}

/** The positions nearest to the given ones that are a line apart and within the two bounds. */
function apart(places: readonly number[], top: number, floor: number): number[] {
  const order = places.map((_, i) => i).sort((a, b) => places[a] - places[b]);
  const found = [...places];
  let least = top;
  for (const i of order) least = (found[i] = Math.max(found[i], least)) + LINE;
  let most = floor;
  for (const i of order.reverse()) most = (found[i] = Math.min(found[i], most)) - LINE;
  return found;
}

function InRows({ curves, plot }: CurveNamesProps) {
  return inRows(curves, plot.x + plot.width).map(({ x, row }, i) => {
    const { name, colour, dash, dots, values, band } = curves[i];
    const y = EDGE + 6 + LINE * row;
    return (
      <g key={name}>
        {dots ? (
          <circle cx={x + SAMPLE / 2} cy={y} r={4} fill={colour} />
        ) : band && values.length === 0 ? (
          <rect
            class="agreement"
            {...{ x, y: y - 6, width: SAMPLE, height: 12 }}
            fill={colour}
            stroke={colour}
          />
        ) : (
          <Line
            points={[
              [x, y],
              [x + SAMPLE, y],
            ]}
            colour={colour}
            dash={dash}
            width={2.5}
          />
        )}
        <Label at={[x + SAMPLE + 5, y]} anchor="start" class="strong" colour={colour}>
          {name}
        </Label>
      </g>
    );
  });
}
