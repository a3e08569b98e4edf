// x, x̂ and the output on number lines: dots and a curve for few values, a histogram for many.

import { scaleLinear } from 'd3-scale';
import { t } from '../../language/text';
import { linearTicks, type Scale, XAxis } from '../../ui/axes';
import { Figure } from '../../ui/figure';
import { type Box, Label, Line, type Point } from '../../ui/marks';
import { exactNumber, roundNumber, shortNumber } from '../../ui/numbers';
import { DataTable } from '../../ui/table';
import { NOT_A_NUMBER } from './charts';
import {
  density,
  histogram,
  HISTOGRAM_FROM,
  type Interval,
  intervalOf,
  smoothing,
} from './distribution';
import type { Measured } from './steps';

export interface Place {
  name: string;
  id: string;
  values: readonly number[];
  colour: string;
  measured: Measured;
}

const WIDTH = 960;
const ROW = 104;
const PLOT = 52; // the height of a row between its name and its axis
const BINS = 32;
const RADIUS = 5; // the radius of a dot
const PARTS = 120; // the segments of a curve

/** The number lines. The last two share one scale. */
export function NumberLines({ places }: { places: Place[] }) {
  const [before, ...after] = places;
  const many = before.values.length >= HISTOGRAM_FROM;
  const reach = (place: Place) => (many ? [...place.values] : withTails(place));
  const shared = intervalOf(after.flatMap(reach), { low: -2, high: 2 });
  const intervals = [intervalOf(reach(before)), ...after.map(() => shared)];
  const name = many
    ? t`Histograms before and after`
    : t`The values on number lines, before and after`;
  return (
    <Figure
      name={name}
      width={WIDTH}
      height={ROW * places.length}
      draw={(width) =>
        places.map((place, i) => (
          <NumberLine
            key={place.id}
            place={place}
            plot={{ x: 14, y: ROW * i + 26, width: width - 28, height: PLOT }}
            interval={intervals[i]}
            many={many}
          />
        ))
      }
      rows={many ? undefined : places}
    >
      {many &&
        places.map((place, i) => (
          <HistogramTable key={place.id} place={place} interval={intervals[i]} />
        ))}
    </Figure>
  );
}

/** The two ends of the smoothed curve. */
function withTails({ values, measured }: Place): number[] {
  const tail = 2 * smoothing(values.length, measured.deviation);
  return [Math.min(...values) - tail, Math.max(...values) + tail];
}

interface NumberLineProps {
  place: Place;
  plot: Box;
  interval: Interval; // from the left end to the right end
  many: boolean;
}

function NumberLine({ place, plot, interval, many }: NumberLineProps) {
  const { values, colour, measured, name } = place;
  const mean = Math.abs(measured.mean) < 1e-9 * measured.rms ? 0 : measured.mean; // rounding
  const at = scaleLinear()
    .domain([interval.low, interval.high])
    .range([plot.x, plot.x + plot.width])
    .clamp(true);
  return (
    <>
      <text x={plot.x} y={plot.y - 9}>
        <tspan class="strong" fill={colour}>
          {name}
        </tspan>
        <tspan class="faint">
          {`  ${t`mean ${roundNumber(mean, 3)}, deviation ${roundNumber(measured.deviation, 3)}`}`}
        </tspan>
      </text>
      {values.some(Number.isNaN) ? (
        <Label at={[plot.x + plot.width / 2, plot.y + PLOT / 2]}>{NOT_A_NUMBER}</Label>
      ) : (
        <>
          <Spread at={at} plot={plot} measured={measured} />
          {many ? (
            <Histogram plot={plot} interval={interval} values={values} colour={colour} />
          ) : (
            <>
              <Curve at={at} plot={plot} place={place} />
              <Dots at={at} floor={plot.y + PLOT} values={values} colour={colour} />
            </>
          )}
          <MeanLine x={at(measured.mean)} plot={plot} />
          <XAxis plot={plot} scale={at} ticks={linearTicks(at, plot.width / 90)} />
        </>
      )}
    </>
  );
}

/** The band of one deviation on either side of the mean. */
function Spread({
  at,
  plot,
  measured: { mean, deviation },
}: {
  at: Scale;
  plot: Box;
  measured: Measured;
}) {
  const [left, right] = [at(mean - deviation), at(mean + deviation)];
  return <rect class="band" x={left} y={plot.y} width={right - left} height={PLOT} />;
}

function MeanLine({ x, plot }: { x: number; plot: Box }) {
  return (
    <Line
      points={[
        [x, plot.y],
        [x, plot.y + PLOT],
      ]}
      class="mean"
      width={1.5}
      dash="5 4"
    />
  );
}

interface HistogramProps {
  plot: Box;
  interval: Interval;
  values: readonly number[];
  colour: string;
}

function Histogram({ plot, interval, values, colour }: HistogramProps) {
  const counts = histogram(values, interval, BINS);
  const width = plot.width / BINS;
  const most = Math.max(...counts);
  return counts.map((count, i) => {
    const height = (count / most) * PLOT;
    const part = { x: plot.x + i * width + 0.5, width: width - 1, height };
    return <rect key={i} class="bar" {...part} y={plot.y + PLOT - height} fill={colour} />;
  });
}

/** The smoothed density of the values, scaled so that its peak fills the plot. */
function Curve({ at, plot, place }: { at: Scale; plot: Box; place: Place }) {
  const { values, measured, colour } = place;
  const width = smoothing(values.length, measured.deviation);
  if (!(width > 0)) return null; // all values are equal
  const floor = plot.y + PLOT;
  const places = Array.from({ length: PARTS + 1 }, (_, i) => plot.x + (plot.width * i) / PARTS);
  const heights = places.map((x) => density(values, width, at.invert(x)));
  const most = Math.max(...heights);
  const points = places.map((x, i): Point => [x, floor - (heights[i] / most) * PLOT]);
  return (
    <>
      <path
        class="st-density"
        d={`M${plot.x} ${floor}L${points.map((point) => point.join(' ')).join('L')}V${floor}Z`}
        fill={colour}
      />
      <Line points={points} colour={colour} width={1.5} />
    </>
  );
}

interface DotsProps {
  at: Scale;
  floor: number;
  values: readonly number[];
  colour: string;
}

/** Dots that would overlap are stacked, more closely if there are many. */
function Dots({ at, floor, values, colour }: DotsProps) {
  const slots = values.map((v) => Math.round(at(v) / (2 * RADIUS)));
  return values.map((v, i) => {
    const stack = slots.filter((slot) => slot === slots[i]).length;
    const level = slots.slice(0, i).filter((slot) => slot === slots[i]).length;
    const rise = stack > 1 ? Math.min(2 * RADIUS, (PLOT - 2 * RADIUS) / (stack - 1)) : 0;
    return (
      <circle
        key={i}
        class="dot"
        cx={at(v)}
        cy={floor - RADIUS - level * rise}
        r={RADIUS}
        fill={colour}
      >
        <title>{exactNumber(v)}</title>
      </circle>
    );
  });
}

function HistogramTable({ place, interval }: { place: Place; interval: Interval }) {
  const width = (interval.high - interval.low) / BINS;
  const counts = histogram(place.values, interval, BINS);
  return (
    <DataTable
      caption={t`Histogram of ${place.name}`}
      columns={[t`values from`, ...counts.map((_, i) => shortNumber(interval.low + i * width))]}
      rows={[{ head: t`values`, cells: counts }]}
    />
  );
}
