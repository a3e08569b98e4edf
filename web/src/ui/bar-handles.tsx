// Handles that move the bars of a chart, by dragging or by the arrow keys.

import { t } from '../language/text';
import { tidy } from '../state/fields';
import type { Item } from '../state/store';
import { type BarChart, column, heightScale } from './bars';
import { exactNumber } from './numbers';
import { pointIn } from './pointer';

const TARGET = 44; // the minimum touch target in pixels

interface BarHandlesProps {
  chart: Pick<BarChart, 'box' | 'values' | 'range' | 'burst'>;
  /** The values of the bars. */
  item: Item<readonly number[]>;
  /** The name of the vector: "x" gives sliders named "x 1", "x 2", … */
  name: string;
  limit: number; // the largest absolute value
  step: number;
  /** The bars show the item's values times this factor. */
  factor?: number;
}

/** Handles for all bars. A mouse can grab a bar anywhere in its column. A finger grabs only the end
 * of the bar, so that a swipe over the rest of the chart scrolls the page. */
export function BarHandles(props: BarHandlesProps) {
  const { chart, item, name, limit, step, factor = 1 } = props;
  const y = heightScale(chart);
  const set = (i: number, value: number) => {
    const stepped = tidy(Math.round(value / step) * step);
    const clamped = Math.min(limit, Math.max(-limit, stepped));
    if (clamped !== item.value[i]) item.value = item.value.map((v, j) => (j === i ? clamped : v));
  };
  const drag = (i: number) => (event: PointerEvent) => {
    const handle = event.currentTarget as SVGGElement;
    if (event.type === 'pointerdown') {
      const isSwipe = event.pointerType === 'touch' && !(event.target as Element).matches('.grip');
      if (event.button !== 0 || isSwipe) return;
      handle.setPointerCapture(event.pointerId);
      handle.focus({ preventScroll: true });
      event.preventDefault();
    }
    if (!handle.hasPointerCapture(event.pointerId)) return;
    set(i, y.invert(pointIn(event)[1]) / factor);
  };
  return chart.values.map((v, i) => {
    const { x, width, ...rest } = column(chart, i);
    const target = Math.min(TARGET, chart.box.height);
    const [top, bottom] = chart.burst ?? [chart.box.y, chart.box.y + chart.box.height];
    const grip = Math.max(top, Math.min(y(v) - target / 2, bottom - target));
    return (
      <g
        key={i}
        class="bar-handle"
        role="slider"
        tabindex={0}
        aria-label={`${name} ${i + 1}`}
        aria-orientation="vertical"
        aria-valuemin={-limit}
        aria-valuemax={limit}
        aria-valuenow={item.value[i]}
        aria-valuetext={factor === 1 ? undefined : t`${item.value[i]}, times ${factor}`}
        onPointerDown={drag(i)}
        onPointerMove={drag(i)}
        onKeyDown={(event) => press(event, item.value[i], props, (value) => set(i, value))}
      >
        <title>{exactNumber(v)}</title>
        <rect {...rest} x={x} width={width} rx={3} />
        <circle class="knob" cx={x + width / 2} cy={y(v)} r={3.5} />
        <rect class="grip" x={x} y={grip} width={width} height={target} />
      </g>
    );
  });
}

function press(
  event: KeyboardEvent,
  value: number,
  { step, limit }: BarHandlesProps,
  set: (value: number) => void,
) {
  const moves: Record<string, number> = {
    ArrowUp: value + step,
    ArrowRight: value + step,
    ArrowDown: value - step,
    ArrowLeft: value - step,
    PageUp: value + 10 * step,
    PageDown: value - 10 * step,
    Home: -limit,
    End: limit,
  };
  if (!(event.key in moves)) return;
  event.preventDefault();
  set(moves[event.key]);
}
