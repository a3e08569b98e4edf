// Bar charts of a vector.

import { scaleLinear } from 'd3-scale';
import { Across, type Box } from './marks';
import { alignedNumbers, exactNumber } from './numbers';
import { FONT_SIZE, textWidth } from './text-width';

export interface BarChart {
  box: Box; // contains the bars and their labels
  values: readonly number[];
  colour: string;
  range: number; // from −range to range; a longer bar is clipped and marked
  ghost?: boolean; // outlines only, for removed or previous values
  zeroLine?: boolean;
  mean?: number; // a dashed line
  labels?: boolean; // the value of each bar; by default on for few bars
}

const ROOM = 21; // space above and below the bars, for labels
const EDGE = 6; // space on the right, for a long label of the last bar
const GAP = 5; // space between a bar and its label, for a handle
const LINE = FONT_SIZE + 1;
/** More bars than this are drawn as one path. */
const MANY = 64;

/** Maps values to y coordinates of the drawing. */
export function heightScale({ box, range }: Pick<BarChart, 'box' | 'range'>) {
  const [bottom, top] = [box.y + box.height - ROOM, box.y + ROOM];
  return scaleLinear([-range, range], [bottom, top]).clamp(true);
}

/** The column of a bar in the box. */
export function column({ box, values }: Pick<BarChart, 'box' | 'values'>, i: number): Box {
  const width = box.width / values.length;
  return { ...box, x: box.x + i * width, width };
}

export function Bars(chart: BarChart) {
  const { box, values, zeroLine, mean, labels = values.length <= 12 } = chart;
  const y = heightScale(chart);
  return (
    <>
      {values.length > MANY ? <ManyBars {...chart} /> : <FewBars {...chart} />}
      {zeroLine && <Across box={box} y={y(0)} class="zero" />}
      {mean !== undefined && <Across box={box} y={y(mean)} class="mean" width={1.5} dash="5 4" />}
      {labels && <Labels {...chart} />}
    </>
  );
}

function FewBars(chart: BarChart) {
  const { values, range, colour, ghost } = chart;
  const y = heightScale(chart);
  return values.map((v, i) => {
    const { x, width } = column(chart, i);
    const gap = width > 6 ? width * 0.12 : 0;
    const part = { x: x + gap, width: width - 2 * gap };
    const top = Math.min(y(0), y(v));
    return (
      <g key={i}>
        <rect
          {...part}
          class={ghost ? 'bar ghost' : 'bar'}
          y={top}
          height={Math.max(1, Math.abs(y(v) - y(0)))}
          {...(ghost ? { stroke: colour } : { fill: colour })}
        >
          <title>{exactNumber(v)}</title>
        </rect>
        {Math.abs(v) > range && <Clip {...part} y={y(v)} up={v > 0} />}
      </g>
    );
  });
}

function ManyBars(chart: BarChart) {
  const y = heightScale(chart);
  const zero = y(0);
  const path = chart.values.map((v, i) => {
    const { x, width } = column(chart, i);
    return `M${x.toFixed(2)} ${zero}V${y(v).toFixed(2)}h${width.toFixed(2)}V${zero}`;
  });
  return <path class="bar" d={path.join('')} fill={chart.colour} />;
}

/** Marks the end of a bar that extends beyond the chart. */
function Clip({ x, width, y, up }: { x: number; width: number; y: number; up: boolean }) {
  const step = up ? 1 : -1;
  return (
    <g transform={`translate(${x} ${y}) scale(1 ${step})`}>
      <path class="cut" d={`M0 5H${width}M0 9H${width}`} />
      <path d={`M${width / 2} -1l-4 5h8Z`} />
    </g>
  );
}

function Labels(chart: BarChart) {
  const y = heightScale(chart);
  const texts = alignedNumbers(chart.values);
  const widths = texts.map((text) => textWidth(text));
  const places = raised(
    widths.map((width, i) => {
      const v = chart.values[i];
      const up = !(v < 0);
      return { up, y: y(v) + (up ? -LINE / 2 - GAP : LINE / 2 + GAP), width };
    }),
    column(chart, 0).width,
  );
  return texts.map((text, i) => {
    const { x, width } = column(chart, i);
    const most = chart.box.x + chart.box.width + EDGE - widths[i] / 2;
    const at = `translate(${Math.min(x + width / 2, most)}px, ${places[i]}px)`;
    return (
      <text key={i} class="value halo" style={{ transform: at }} dy="0.35em" text-anchor="middle">
        {text}
      </text>
    );
  });
}

interface Place {
  up: boolean;
  y: number;
  width: number;
}

/** The vertical offsets of the labels. A label that would touch its neighbour is
 * moved a line away from its bar. */
function raised(places: Place[], column: number): number[] {
  const found: number[] = [];
  places.forEach(({ up, y, width }, i) => {
    const touches =
      i > 0 && (width + places[i - 1].width) / 2 > column - 2 && Math.abs(y - found[i - 1]) < LINE;
    found.push(touches ? found[i - 1] + (up ? -LINE : LINE) : y);
  });
  return found;
}

/** A range that shows all values, symmetric about zero, in round steps. */
export function symmetricRange(values: readonly number[], least = 1): number {
  const most = values.reduce((max, v) => Math.max(max, Math.abs(v)), least);
  const power = 10 ** Math.floor(Math.log10(most));
  return [1, 1.5, 2, 3, 5, 7.5, 10].map((m) => m * power).find((m) => m >= most * 0.999999) ?? most;
}
