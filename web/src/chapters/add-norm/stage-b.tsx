// Stage B: statistics, normalize, scale and shift. Each step is a chart, with arrows between.

import { batch } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { t } from '../../language/text';
import { Button, Slider } from '../../ui/controls';
import { Figure } from '../../ui/figure';
import { Formula } from '../../ui/formula';
import { fixedNumber, shortNumber } from '../../ui/numbers';
import { Rounded, type VectorRow } from '../../ui/table';
import { INJECTED, result } from './compute';
import {
  heightOf,
  NormalizedChart,
  OutputChart,
  shownMean,
  StatisticsChart,
} from './stage-b-charts';
import { state } from './state';
import { TourPart } from './tour';

const WIDTH = 200;

export function StageB() {
  const { sum, normalized, output, deviation } = result.value;
  return (
    <div class="an-steps">
      <Step
        part="b1"
        title={t`B1: Calculate stats`}
        head={<MeanAndDeviation mean={shownMean()} deviation={deviation} />}
        name={t`Step B1. Bars of s, with its mean as a dashed line.`}
        row={{ name: 's', id: 'norm-input', values: sum }}
        draw={(width) => <StatisticsChart width={width} />}
      >
        <p class="hint">{t`Bars of s. The largest bar sets the scale.`}</p>
      </Step>
      <Arrow />
      <Step
        part="b2"
        title={t`B2: Normalize`}
        head={<Formula tex="\hat x = (s - \mu) / \sigma" />}
        name={t`Step B2. Bars of the normalized vector, around a zero line.`}
        row={{ name: 'x̂', id: 'normalized', values: normalized }}
        draw={(width) => <NormalizedChart width={width} />}
      >
        <p class="hint">{normalizedWords(normalized)}</p>
      </Step>
      <Arrow />
      <Step
        part="b3"
        title={t`B3: Scale & shift`}
        head={<Formula tex="y = \gamma \hat x + \beta" />}
        name={t`Step B3. Bars of the output, around a zero line.`}
        row={{ name: 'y', id: 'output', values: output }}
        draw={(width) => <OutputChart width={width} />}
      >
        <Learned />
      </Step>
    </div>
  );
}

function normalizedWords(normalized: readonly number[]): string {
  if (normalized.every((v) => v === 0)) {
    return t`All values of s are equal: x̂ is 0, and ε keeps the division from being 0 ÷ 0.`;
  }
  return state.unstable.value
    ? t`x̂ has mean 0 and deviation 1. Outlines: x̂ without the factor ${INJECTED}. Pale: s − μ,
        before the division by σ.`
    : t`x̂ has mean 0 and deviation 1.`;
}

/** The sliders of γ and β, and a button that sets them to σ and μ. */
function Learned() {
  const { deviation } = result.value;
  const undone = state.undone.value;
  const format = undone ? shortNumber : (v: number) => fixedNumber(v, 1);
  return (
    <>
      <Slider label={t`Gamma (γ)`} item={undoneAs(state.gamma, () => deviation)} format={format} />
      <Slider label={t`Beta (β)`} item={undoneAs(state.beta, shownMean)} format={format} />
      <div class="buttons">
        <Button pressed={undone} onClick={() => (state.undone.value = !undone)}>
          {t`Set γ = σ, β = μ`}
        </Button>
      </div>
      <p class="hint">
        {undone
          ? t`With γ = σ and β = μ the norm is undone: y is s again.`
          : t`γ and β are learned. Training starts at γ = 1 and β = 0.`}
      </p>
    </>
  );
}

/** γ or β as its slider shows it: a statistic while the norm is undone. Moving the slider ends that. */
function undoneAs(item: typeof state.gamma, statistic: () => number) {
  return {
    field: item.field,
    problem: item.problem,
    get value() {
      return state.undone.value ? statistic() : item.value;
    },
    set value(value: number) {
      batch(() => {
        state.undone.value = false;
        item.value = value;
      });
    },
  };
}

interface StepProps {
  part: 'b1' | 'b2' | 'b3';
  title: string;
  head: ComponentChildren; // above the chart
  name: string; // the chart's name
  row: VectorRow;
  draw(width: number): ComponentChildren;
  children: ComponentChildren; // below the chart
}

function Step({ part, title, head, row, children, ...figure }: StepProps) {
  return (
    <TourPart part={part} name={title}>
      <h4>{title}</h4>
      <div class="an-head">{head}</div>
      <Figure
        {...figure}
        width={WIDTH}
        height={heightOf}
        caption={part.toUpperCase()}
        rows={[row]}
      />
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

/** → in a row; narrow columns have no room for it. */
function Arrow() {
  return <div class="an-arrow" aria-hidden="true" />;
}
