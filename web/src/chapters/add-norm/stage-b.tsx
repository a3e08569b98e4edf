// Stage B: statistics, normalize, scale and shift. Each step is a chart, with arrows between.

import type { ComponentChildren } from 'preact';
import { t } from '../../language/text';
import { linearTicks, YAxis } from '../../ui/axes';
import {
  type BarChart,
  Bars,
  heightScale,
  ROOM_FOR_TWO_LINES,
  symmetricRange,
} from '../../ui/bars';
import { Slider } from '../../ui/controls';
import { Figure } from '../../ui/figure';
import { Formula } from '../../ui/formula';
import { Label, LINE } from '../../ui/marks';
import { fixedNumber, shortNumber } from '../../ui/numbers';
import { Rounded, type VectorRow } from '../../ui/table';
import { largest, withoutNoise } from '../../ui/vectors';
import { result } from './compute';
import { state } from './state';
import { TourPart } from './tour';

const WIDTH = 200;
const HEIGHT = 250;
/** The range of both x̂ and y, so that they can be compared. */
const RANGE = 3;

export function StageB() {
  const { sum, normalized, output, deviation } = result.value;
  const mean = shownMean();
  return (
    <div class="an-steps">
      <Step
        part="b1"
        title={t`B1: Calculate stats`}
        head={<MeanAndDeviation mean={mean} deviation={deviation} />}
        name={t`Step B1. Bars of s, with its mean as a dashed line.`}
        row={{ name: 's', id: 'norm-input', values: sum }}
        drawing={<StatisticsChart />}
      >
        <p class="hint">{t`Bars of s. The largest bar sets the scale.`}</p>
      </Step>
      <Arrow />
      <Step
        part="b2"
        title={t`B2: Normalize`}
        head={<Formula tex="\hat x = (s - \mu) / \sigma" />}
        name={t`Step B2. Bars of the normalized vector, about a zero line.`}
        row={{ name: 'x̂', id: 'normalized', values: normalized }}
        drawing={<CentredChart values={normalized} colour="var(--normalized)" />}
      >
        <p class="hint">
          {normalized.some((v) => v !== 0)
            ? t`x̂ has mean 0, deviation 1.`
            : t`All values of s are equal: x̂ is 0, and ε keeps the division from being 0 ÷ 0.`}
        </p>
      </Step>
      <Arrow />
      <Step
        part="b3"
        title={t`B3: Scale & shift`}
        head={<Formula tex="y = \gamma \hat x + \beta" />}
        name={t`Step B3. Bars of the output, about a zero line.`}
        row={{ name: 'y', id: 'output', values: output }}
        drawing={<CentredChart values={output} colour="var(--output)" />}
      >
        <Slider label={t`Gamma (γ)`} item={state.gamma} format={oneDecimal} />
        <Slider label={t`Beta (β)`} item={state.beta} format={oneDecimal} />
      </Step>
    </div>
  );
}

/** The mean of s, without rounding errors. */
function shownMean(): number {
  const { sum, mean } = result.value;
  return withoutNoise(mean, largest(sum));
}

interface StepProps {
  part: 'b1' | 'b2' | 'b3';
  title: string;
  head: ComponentChildren; // above the chart
  name: string; // the chart's name
  row: VectorRow;
  drawing: ComponentChildren;
  children: ComponentChildren; // below the chart
}

function Step({ part, title, head, name, row, drawing, children }: StepProps) {
  const figure = { name, width: WIDTH, height: HEIGHT, caption: part.toUpperCase(), rows: [row] };
  return (
    <TourPart part={part} name={title}>
      <h4>{title}</h4>
      <div class="an-head">{head}</div>
      <Figure {...figure} draw={() => drawing} />
      {children}
    </TourPart>
  );
}

function MeanAndDeviation({ mean, deviation }: { mean: number; deviation: number }) {
  return (
    <div class="an-stats">
      <span>
        μ ={' '}
        <span data-stat="mean">
          <Rounded value={mean} />
        </span>
      </span>
      <span>
        σ ={' '}
        <span data-stat="deviation">
          <Rounded value={deviation} />
        </span>
      </span>
    </div>
  );
}

/** → in a row, ↓ in a column. */
function Arrow() {
  return <div class="an-arrow" aria-hidden="true" />;
}

function oneDecimal(v: number): string {
  return fixedNumber(v, 1);
}

/** The part of the drawing to the right of the scale. */
function boxFrom(x: number) {
  return { x, y: 2, width: WIDTH - x - 4, height: HEIGHT - 4 };
}

function StatisticsChart() {
  const { sum } = result.value;
  const mean = shownMean();
  const range = symmetricRange(
    sum.map((v) => 1.2 * v),
    3,
  );
  const room = ROOM_FOR_TWO_LINES;
  const box = boxFrom(48);
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

function CentredChart({ values, colour }: { values: readonly number[]; colour: string }) {
  const chart: BarChart = {
    box: boxFrom(28),
    values,
    colour,
    range: RANGE,
    zeroLine: true,
    room: ROOM_FOR_TWO_LINES,
  };
  const scale = heightScale(chart);
  return (
    <>
      <YAxis plot={chart.box} scale={scale} ticks={linearTicks(scale, 4)} />
      <Bars {...chart} />
    </>
  );
}
