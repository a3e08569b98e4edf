// Axes: round numbers along the edges of a drawing, and lines across it.

import type { ScaleContinuousNumeric } from 'd3-scale';
import { type Box, Label, Line } from './marks';
import { plainNumber, powerNumber, roundNumber } from './numbers';
import { textWidth } from './text-width';

export type Scale = ScaleContinuousNumeric<number, number>;

export interface Tick {
  value: number;
  text: string;
}

/** About `count` round numbers; with `whole` only whole numbers. */
export function linearTicks(scale: Scale, count: number, whole = false): Tick[] {
  const values = scale.ticks(count).filter((v) => !whole || Number.isInteger(v));
  return values.map((value) => ({ value, text: plainNumber(value) }));
}

const FEW = 6;
const LEAST_PITCH = 40; // in pixels

/** The values themselves if they are few and not too close on the scale; else undefined. */
export function valueTicks(scale: Scale, values: readonly number[]): Tick[] | undefined {
  const places = values.map(scale);
  const isFew = values.length >= 3 && values.length <= FEW;
  if (!isFew || places.some((at, i) => i > 0 && at - places[i - 1] < LEAST_PITCH)) return undefined;
  return values.map((value) => ({ value, text: roundNumber(value, 3) }));
}

/** About `most` powers of ten. If there are few, 1, 2 and 5 times each; within one decade, finer
 * steps. */
export function logTicks(scale: Scale, most = 9): Tick[] {
  const [min, max] = scale.domain();
  const decades = Math.log10(max / min);
  const every = Math.ceil(decades / most);
  const all = decades < 1 ? scale.ticks(6) : roundNumbers(min, max);
  const values = all.filter((v) => {
    if (v < min * 0.999 || v > max * 1.001) return false;
    const power = Math.log10(v);
    const isPower = Math.abs(power - Math.round(power)) < 1e-6;
    return decades < Math.min(3.5, most / 2.5) || (isPower && Math.round(power) % every === 0);
  });
  return values.map((value) => ({ value, text: logLabel(value) }));
}

function logLabel(v: number): string {
  return v >= 1e-3 && v < 1e5 ? plainNumber(v) : powerNumber(v, 0);
}

/** The least span of a linear axis, as a share of its largest value. On a shorter axis, noise would
 * look large. report/chart.cc has the same constant. */
const LEAST_SPAN = 0.05;

/** The ends of a linear axis for these values. They are centred on it unless it would begin below 0. */
export function linearDomain(min: number, max: number): [number, number] {
  const span = LEAST_SPAN * Math.max(Math.abs(min), Math.abs(max)) || 1;
  if (max - min >= span) return [min, max];
  const low = (min + max - span) / 2;
  const from = min >= 0 && low < 0 ? 0 : low;
  return [from, from + span];
}

/** A value beyond a round number by at most this factor does not extend the axis. */
const NEAR = 1.004;

/** The nearest numbers 1, 2, 5 · 10ⁿ below and above. */
export function logDomain(min: number, max: number): [number, number] {
  const ticks = roundNumbers(min, max);
  const low = ticks.findLast((v) => v <= min * NEAR) ?? min;
  return [low, ticks.find((v) => v >= max / NEAR && v > low) ?? max];
}

function roundNumbers(min: number, max: number): number[] {
  const [low, high] = [Math.floor(Math.log10(min)), Math.ceil(Math.log10(max))];
  const powers = Array.from({ length: high - low + 1 }, (_, i) => low + i);
  const most = Number(`1e${high + 1}`);
  return [...powers.flatMap((n) => [1, 2, 5].map((m) => Number(`${m}e${n}`))), most];
}

interface AxisProps {
  plot: Box;
  scale: Scale;
  ticks: readonly Tick[];
}

const BESIDE = 12; // the room on the right of a plot

/** Lines across the plot, with their values on the left. */
export function YAxis({ plot, scale, ticks }: AxisProps) {
  return ticks.map(({ value, text }) => {
    const y = scale(value);
    return (
      <g key={value}>
        <Line
          points={[
            [plot.x, y],
            [plot.x + plot.width, y],
          ]}
          width={1}
          class="grid"
        />
        <Label at={[plot.x - 7, y]} anchor="end" class="faint">
          {text}
        </Label>
      </g>
    );
  });
}

/** Marks below the plot, with their values. */
export function XAxis({ plot, scale, ticks }: AxisProps) {
  const floor = plot.y + plot.height;
  return (
    <>
      <Line
        points={[
          [plot.x, floor],
          [plot.x + plot.width, floor],
        ]}
        width={1}
        class="zero"
      />
      {ticks.map(({ value, text }) => (
        <g key={text}>
          <Line
            points={[
              [scale(value), floor],
              [scale(value), floor + 5],
            ]}
            width={1}
            class="zero"
          />
          <Label
            at={[
              Math.min(scale(value), plot.x + plot.width + BESIDE - textWidth(text) / 2),
              floor + 14,
            ]}
            class="faint"
          >
            {text}
          </Label>
        </g>
      ))}
    </>
  );
}
