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
  burst?: readonly [top: number, bottom: number]; // y up to which longer bars are drawn
  ghost?: boolean; // outlines only, for removed or previous values
  zeroLine?: boolean;
  mean?: number; // a dashed line
  labels?: boolean; // the value of each bar; by default on for few bars
  below?: number; // free height of the drawing under the box, for labels
  room?: number; // above and below the bars, for labels; by default for one line
}

const ROOM = 21; // for one line of labels
export const ROOM_FOR_TWO_LINES = 34;
const EDGE = 6; // space on the right, for a long label of the last bar
const GAP = 5; // space between a bar and its label, for a handle
const LINE = FONT_SIZE + 1;
/** More bars than this are drawn as one path. */
const MANY = 64;

/** Maps values to y coordinates of the drawing, in the range of the chart or up to its burst. */
export function heightScale(chart: Pick<BarChart, 'box' | 'range' | 'room' | 'burst'>) {
  const { box, range, room = ROOM, burst } = chart;
  const [bottom, top] = [box.y + box.height - room, box.y + room];
  const scale = scaleLinear([-range, range], [bottom, top]);
  if (burst) scale.domain([burst[1], burst[0]].map(scale.invert)).range([burst[1], burst[0]]);
  return scale.clamp(true);
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
  const { values, colour, ghost } = chart;
  const y = heightScale(chart);
  const [low, high] = y.domain();
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
        {(v < low || v > high) && <Clip {...part} y={y(v)} up={v > 0} />}
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
  const texts = alignedNumbers(chart.values);
  const widths = texts.map((text) => textWidth(text));
  const places = labelPlaces(chart, widths);
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

/** The y of the middle of each label: beyond the end of its bar, and not on the mean's line. A label
 * that would touch its neighbour is moved by a line: away from its bar, or towards it if the label
 * would leave the chart. */
export function labelPlaces(chart: BarChart, widths: readonly number[]): number[] {
  const { box, values, mean, below = 0 } = chart;
  const y = heightScale(chart);
  const pitch = column(chart, 0).width;
  const edges = chart.burst ?? [box.y, box.y + box.height + below];
  const [top, bottom] = [edges[0] + LINE / 2, edges[1] - LINE / 2];
  const found: number[] = [];
  values.forEach((v, i) => {
    const out = v < 0 ? 1 : -1; // away from the bar
    let place = y(v) + out * (LINE / 2 + GAP);
    const fromMean = LINE / 2 + 2;
    if (mean !== undefined && Math.abs(place - y(mean)) < fromMean) {
      place = y(mean) + out * fromMean;
    }
    const isNear = i > 0 && (widths[i] + widths[i - 1]) / 2 > pitch - 2;
    if (isNear && Math.abs(place - found[i - 1]) < LINE - 0.5) {
      place = found[i - 1] + out * LINE;
      if (place < top || place > bottom) place = found[i - 1] - out * LINE;
    }
    found.push(place);
  });
  return found;
}

/** A range that shows all values, symmetric about zero, in round steps. */
export function symmetricRange(values: readonly number[], least = 1): number {
  const most = values.reduce((max, v) => Math.max(max, Math.abs(v)), least);
  const power = 10 ** Math.floor(Math.log10(most));
  return [1, 1.5, 2, 3, 5, 7.5, 10].map((m) => m * power).find((m) => m >= most * 0.999999) ?? most;
}
