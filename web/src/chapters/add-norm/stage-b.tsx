// Stage B: statistics, normalize, scale and shift. Each step is a chart, with arrows between.

import type { ComponentChildren } from 'preact';
import { type BarChart, drawBars, heightOf, symmetricRange } from '../../ui/bars';
import { COLOURS } from '../../ui/colours';
import { Slider } from '../../ui/controls';
import { drawText } from '../../ui/draw';
import { type Box, type Context, Figure } from '../../ui/figure';
import { Formula } from '../../ui/formula';
import { exactNumber, fixedNumber, shortNumber } from '../../ui/numbers';
import type { VectorRow } from '../../ui/table';
import { result } from './compute';
import { drawScale } from './stage-a';
import { state } from './state';
import { TourPart } from './tour';

const SIZE = { width: 200, height: 250 };
const BARS: Box = { x: 49, y: 2, width: 149, height: 246 }; // left of it: the scale
/** The same for x̂ and y, so that they can be compared. */
const RANGE = 3;

export function StageB() {
  const { sum, normalized, output, mean, deviation } = result.value;
  return (
    <div class="an-steps">
      <Step
        part="b1"
        title="B1: Calculate stats"
        head={<MeanAndDeviation mean={mean} deviation={deviation} />}
        name="Step B1. Bars of s, with its mean as a dashed line."
        row={{ name: 's', id: 'norm-input', values: sum }}
        draw={drawStatistics}
      >
        <p class="hint">Bars of s. The scale follows them, from ±3 up.</p>
      </Step>
      <Arrow />
      <Step
        part="b2"
        title="B2: Normalize"
        head={<Formula tex="\hat x = (s - \mu) / \sigma" />}
        name="Step B2. Bars of the normalized vector, about a zero line."
        row={{ name: 'x̂', id: 'normalized', values: normalized }}
        draw={(context) => drawCentred(context, normalized, COLOURS.identity)}
      >
        <p class="hint">x̂ has mean 0, deviation 1.</p>
      </Step>
      <Arrow />
      <Step
        part="b3"
        title="B3: Scale & shift"
        head={<Formula tex="y = \gamma \hat x + \beta" />}
        name="Step B3. Bars of the output, about a zero line."
        row={{ name: 'y', id: 'output', values: output }}
        draw={(context) => drawCentred(context, output, COLOURS.output)}
      >
        <Slider label="Gamma (γ)" item={state.gamma} format={oneDecimal} />
        <Slider label="Beta (β)" item={state.beta} format={oneDecimal} />
      </Step>
    </div>
  );
}

interface StepProps {
  part: 'b1' | 'b2' | 'b3';
  title: string;
  head: ComponentChildren; // above the chart
  name: string; // of the chart
  row: VectorRow;
  draw(context: Context): void;
  children: ComponentChildren; // below the chart
}

function Step({ part, title, head, name, row, draw, children }: StepProps) {
  return (
    <TourPart part={part} name={title}>
      <h4>{title}</h4>
      <div class="an-head">{head}</div>
      <Figure name={name} size={SIZE} draw={draw} caption={part.toUpperCase()} rows={[row]} />
      {children}
    </TourPart>
  );
}

function MeanAndDeviation({ mean, deviation }: { mean: number; deviation: number }) {
  return (
    <div class="an-stats">
      <span>
        μ = <span data-stat="mean">{exactNumber(mean)}</span>
      </span>
      <span>
        σ = <span data-stat="deviation">{exactNumber(deviation)}</span>
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

function drawStatistics(context: Context) {
  const { sum, mean } = result.value;
  const room = 1.2; // above the bars, for the mean's label
  const range = symmetricRange(
    sum.map((v) => room * v),
    3,
  );
  const chart: BarChart = { box: BARS, values: sum, colour: COLOURS.branch, range, mean };
  drawScale(context, chart, [range, -range]);
  drawBars(context, chart);
  const at = heightOf(chart, mean);
  drawText(context, `μ ${shortNumber(mean)}`, BARS.x - 3, at, { align: 'right', size: 10.5 });
}

function drawCentred(context: Context, values: readonly number[], colour: string) {
  const chart: BarChart = { box: BARS, values, colour, range: RANGE, zeroLine: true };
  drawScale(context, chart, [2, 0, -2]);
  drawBars(context, chart);
}
