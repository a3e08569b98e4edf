// Stage B: statistics, normalize, scale and shift. Each step is a chart, with arrows between.

import type { ComponentChildren } from 'preact';
import { type BarChart, drawBars, heightOf, symmetricRange } from '../../ui/bars';
import { COLOURS } from '../../ui/colours';
import { Slider } from '../../ui/controls';
import { type Box, type Context, drawText, Figure } from '../../ui/figure';
import { Formula } from '../../ui/formula';
import { exactNumber, fixedNumber, shortNumber } from '../../ui/numbers';
import { VectorTable } from '../../ui/table';
import { result } from './compute';
import { drawScale } from './stage-a';
import { BETA, GAMMA, state } from './state';
import { TourPart } from './tour';

const SIZE = { width: 200, height: 250 };
const BARS: Box = { x: 49, y: 2, width: 149, height: 246 }; // left of it: the scale
/** Of x̂ and y alike, so that they can be compared. */
const RANGE = 3;

export function StageB() {
  const { sum, normalized, output, mean, deviation } = result.value;
  return (
    <div class="an-steps">
      <Step
        part="b1"
        title="B1: Calculate stats"
        head={
          <div class="an-stats">
            <span>
              μ = <span data-stat="mean">{exactNumber(mean)}</span>
            </span>
            <span>
              σ = <span data-stat="deviation">{exactNumber(deviation)}</span>
            </span>
          </div>
        }
      >
        <Figure
          name="Step B1. Bars of s, with its mean as a dashed line."
          size={SIZE}
          draw={drawStatistics}
        >
          <VectorTable caption="B1" rows={[{ name: 's', id: 'norm-input', values: sum }]} />
        </Figure>
        <p class="hint">Bars of s. The scale follows them, from ±3 up.</p>
      </Step>
      <Arrow />
      <Step part="b2" title="B2: Normalize" head={<Formula tex="\hat x = (s - \mu) / \sigma" />}>
        <Figure
          name="Step B2. Bars of the normalized vector, about a zero line."
          size={SIZE}
          draw={drawNormalized}
        >
          <VectorTable caption="B2" rows={[{ name: 'x̂', id: 'normalized', values: normalized }]} />
        </Figure>
        <p class="hint">x̂ has mean 0, deviation 1.</p>
      </Step>
      <Arrow />
      <Step part="b3" title="B3: Scale & shift" head={<Formula tex="y = \gamma \hat x + \beta" />}>
        <Figure
          name="Step B3. Bars of the output, about a zero line."
          size={SIZE}
          draw={drawOutput}
        >
          <VectorTable caption="B3" rows={[{ name: 'y', id: 'output', values: output }]} />
        </Figure>
        <Slider label="Gamma (γ)" item={state.gamma} {...GAMMA} format={oneDecimal} />
        <Slider label="Beta (β)" item={state.beta} {...BETA} format={oneDecimal} />
      </Step>
    </div>
  );
}

interface StepProps {
  part: 'b1' | 'b2' | 'b3';
  title: string;
  head: ComponentChildren; // what stands above the chart
  children: ComponentChildren;
}

function Step({ part, title, head, children }: StepProps) {
  return (
    <TourPart part={part} name={title}>
      <h4>{title}</h4>
      <div class="an-head">{head}</div>
      {children}
    </TourPart>
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
  const range = symmetricRange(
    sum.map((v) => 1.2 * v),
    3,
  ); // room for the mean's label
  const chart = chartOf(sum, COLOURS.branch, range);
  drawScale(context, chart, [range, -range]);
  drawBars(context, { ...chart, mean });
  const at = heightOf(chart, mean);
  drawText(context, `μ ${shortNumber(mean)}`, BARS.x - 3, at, { align: 'right', size: 10.5 });
}

function drawNormalized(context: Context) {
  drawCentred(context, chartOf(result.value.normalized, COLOURS.identity, RANGE));
}

function drawOutput(context: Context) {
  drawCentred(context, chartOf(result.value.output, COLOURS.output, RANGE));
}

function drawCentred(context: Context, chart: BarChart) {
  drawScale(context, chart, [2, 0, -2]);
  drawBars(context, { ...chart, zeroLine: true });
}

function chartOf(values: readonly number[], colour: string, range: number): BarChart {
  return { box: BARS, values, colour, low: -range, high: range };
}
