// The charts of stage B.

import { useLayoutEffect, useState } from 'preact/hooks';
import { linearTicks, YAxis } from '../../ui/axes';
import {
  type BarChart,
  Bars,
  heightScale,
  ROOM_FOR_TWO_LINES,
  symmetricRange,
} from '../../ui/bars';
import { Label, LINE } from '../../ui/marks';
import { wantsStillness } from '../../ui/motion';
import { shortNumber } from '../../ui/numbers';
import { largest, withoutNoise } from '../../ui/vectors';
import { comparison, result } from './compute';
import { state } from './state';

/** The range of both x̂ and y, so that they can be compared. */
const RANGE = 3;
const HEIGHT = 250;
const LOW = { width: 180, height: 156 }; // a chart narrower than this is only this high

interface ChartProps {
  width: number;
}

export function heightOf(width: number): number {
  return width < LOW.width ? LOW.height : HEIGHT;
}

/** The mean of s, without rounding errors. */
export function shownMean(): number {
  const { sum, mean } = result.value;
  return withoutNoise(mean, largest(sum));
}

/** The part of the drawing to the right of the scale. */
function boxFrom(x: number, width: number) {
  return { x, y: 2, width: width - x - 4, height: heightOf(width) - 4 };
}

export function StatisticsChart({ width }: ChartProps) {
  const { sum } = result.value;
  const mean = shownMean();
  const range = symmetricRange(
    sum.map((v) => 1.2 * v),
    3,
  );
  const room = ROOM_FOR_TWO_LINES;
  const box = boxFrom(width < LOW.width ? 43 : 48, width);
  const chart: BarChart = { box, values: sum, colour: 'var(--statistics)', range, mean, room };
  const scale = heightScale(chart);
  const ticks = linearTicks(scale, 4)
    .filter(({ value }) => value)
    .map(({ value, text }) => {
      const isFree = Math.abs(scale(value) - scale(mean)) > LINE; // of the mean's label
      return { value, text: isFree ? text : '' };
    });
  return (
    <>
      <YAxis plot={box} scale={scale} ticks={ticks} />
      <Bars {...chart} />
      <Label at={[box.x - 3, scale(mean)]} anchor="end" class="halo">
        μ {shortNumber(mean)}
      </Label>
    </>
  );
}

/** The vectors on the way from s to x̂. */
const STEPS = ['s', 's − μ', 'x̂'] as const;
const STEP_MS = 900;

/** x̂. When instability is injected, the bars first show s, then s − μ, then x̂. */
export function NormalizedChart({ width }: ChartProps) {
  const { sum, mean, normalized } = result.value;
  const unstable = state.unstable.value;
  const step = useSteps(unstable);
  const centred = sum.map((v) => v - mean);
  const shown = { s: sum, 's − μ': centred, x̂: normalized }[step];
  const chart = centredChart(width, 'var(--normalized)');
  const { box } = chart;
  const large = { ...chart, burst: [box.y, box.y + box.height] as const, labels: false };
  const isMoving = step !== 'x̂';
  return (
    <>
      <Scale {...chart} />
      {unstable && (
        <g class="an-pale">
          <Bars {...large} values={centred} colour="var(--broken)" zeroLine={false} />
        </g>
      )}
      <Bars {...(isMoving ? large : chart)} values={shown} />
      {unstable && !isMoving && (
        <Bars
          {...chart}
          values={comparison.value.stable}
          colour="var(--text)"
          ghost
          labels={false}
        />
      )}
      {isMoving && (
        <Label at={[box.x + box.width / 2, box.y + LINE]} class="strong halo">
          {step}
        </Label>
      )}
    </>
  );
}

/** The current one of STEPS. They are shown one after another when `starts` becomes true, unless the
 * reader prefers no motion. */
function useSteps(starts: boolean): (typeof STEPS)[number] {
  const end = STEPS.length - 1;
  const [step, setStep] = useState(end);
  const [last, setLast] = useState(starts);
  useLayoutEffect(() => {
    setLast(starts);
    setStep(starts && !last && !wantsStillness() ? 0 : end);
  }, [starts]);
  useLayoutEffect(() => {
    if (step === end) return;
    const timer = setTimeout(() => setStep(step + 1), STEP_MS);
    return () => clearTimeout(timer);
  }, [step]);
  return STEPS[step];
}

export function OutputChart({ width }: ChartProps) {
  const chart = centredChart(width, 'var(--output)');
  return (
    <>
      <Scale {...chart} />
      <Bars {...chart} values={result.value.output} />
    </>
  );
}

function centredChart(width: number, colour: string) {
  const box = boxFrom(28, width);
  return { box, colour, range: RANGE, zeroLine: true, room: ROOM_FOR_TWO_LINES };
}

function Scale(chart: ReturnType<typeof centredChart>) {
  const scale = heightScale(chart);
  return <YAxis plot={chart.box} scale={scale} ticks={linearTicks(scale, 4)} />;
}
