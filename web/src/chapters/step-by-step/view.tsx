// The chapter “Step by step”: mean, deviation, normalize, scale and shift,
// with the reader's own numbers.

import type { NormOptions } from 'addnorm';
import type { ComponentChildren } from 'preact';
import { useMemo } from 'preact/hooks';
import { WithTerms } from '../../glossary/view';
import { addNormToken } from '../../kernels/token';
import { t, Trans, translated } from '../../language/text';
import { symmetricRange } from '../../ui/bars';
import { assign } from '../../state/store';
import { Advanced } from '../../ui/advanced';
import { Button, Choice, Presets, Slider, TextField } from '../../ui/controls';
import { Formula } from '../../ui/formula';
import { NORM_NAMES } from '../../ui/names';
import { Everything } from '../../ui/route';
import { alignedNumbers } from '../../ui/numbers';
import { DataTable, Rounded, Statistics } from '../../ui/table';
import { texNumber } from '../../ui/tex';
import * as arithmetic from './arithmetic';
import { InputChart, leastRange, StepChart } from './charts';
import { HISTOGRAM_FROM } from './distribution';
import { conventions, features512, randomVector, torchExample, wideSpread } from './examples';
import { NumberLines } from './number-lines';
import { LIMIT, state } from './state';
import { lightWhenSeen, StepCode } from './step-code';
import { changeOfNormalized, measure, remarks, type Steps, takeSteps } from './steps';
import './style.css';

export function StepByStep() {
  const { norm, variance, epsilon, epsilonAt } = state;
  const [kind, divisor, size, at] = [norm.value, variance.value, epsilon.value, epsilonAt.value];
  const options: NormOptions = useMemo(
    () => ({ kind, variance: divisor, epsilon: Number(size), epsilonAt: at }),
    [kind, divisor, size, at],
  );
  const steps = useMemo(() => takeSteps(options, state.x.value), [options, state.x.value]);
  return (
    <>
      <p>
        <Trans>
          A norm does to a token what automatic brightness and contrast do to a photo: dark or
          bright, flat or harsh, the picture ends up in the same range, and its shapes stay. It
          takes four small steps. The vector, s in chapter 1, is called x here. LayerNorm uses one
          token’s numbers; BatchNorm uses a whole batch, so a token’s result depends on others. Type
          or paste your own numbers, or drag the bars; everything below is updated.
        </Trans>
      </p>
      <VectorControls
        problem={typeof steps === 'string' ? t`cannot be used: ${translated(steps)}` : ''}
      />
      <div class="controls">
        <Choice label={t`Norm`} item={state.norm} labels={NORM_NAMES} />
      </div>
      <ConventionControls />
      {typeof steps !== 'string' && <Results options={options} steps={steps} />}
    </>
  );
}

function VectorControls({ problem }: { problem: string }) {
  return (
    <>
      <TextField
        label={t`Vector`}
        item={state.x}
        rows={2}
        hint={t`1 to 1024 numbers, separated by commas or spaces, with or without brackets.`}
        format={(values) => values.join(', ')}
        problem={problem}
      />
      <div class="buttons" role="group" aria-label={t`Examples`}>
        <Button onClick={() => (state.x.value = state.x.field.initial)}>1, 2, 3, 4</Button>
        <Button onClick={() => (state.x.value = randomVector())}>{t`Random`}</Button>
        <Button onClick={() => assign(state, torchExample)}>
          <code>torch.randn · 10 + 5</code>
        </Button>
        <Button onClick={() => (state.x.value = wideSpread)}>{t`Wide spread`}</Button>
        <Button onClick={() => (state.x.value = features512)}>{t`512 features`}</Button>
        <Everything>
          <Button onClick={() => (state.x.value = [3, 3, 3, 3])}>{t`Equal values`}</Button>
          <Button onClick={() => (state.x.value = [5])}>{t`One value`}</Button>
        </Everything>
      </div>
    </>
  );
}

/** The choices in which libraries differ. */
function ConventionControls() {
  const { variance, epsilon, epsilonAt } = state;
  return (
    <Advanced
      title={t`ε and the variance, as in PyTorch, BERT, Llama 3 …`}
      state={[variance, epsilon, epsilonAt]}
    >
      <Presets label={t`Conventions`} state={state} presets={conventions} />
      <p class="hint">
        {t`Conventions differ in the value of ε, in its place, and in the divisor of the variance.
          Code written from scratch with torch.std divides by n − 1, and often adds ε outside the
          square root.`}
      </p>
      <div class="controls">
        <Choice
          label={t`Variance`}
          item={variance}
          labels={{ population: '÷ n', unbiased: '÷ (n − 1)' }}
        />
        <Choice
          label={t`Place of ε`}
          item={epsilonAt}
          labels={{ variance: '√(Var + ε)', deviation: '√Var + ε' }}
        />
        <Choice label="ε" item={epsilon} />
      </div>
    </Advanced>
  );
}

interface StepsProps {
  options: NormOptions;
  steps: Steps;
}

function Results({ options, steps }: StepsProps) {
  const { x, normalized } = steps;
  const { output } = addNormToken(options, x, null, state.gamma.value, state.beta.value);
  return (
    <>
      <div role="status">
        {remarks(options, steps).map((text) => (
          <p class="remark st-remark" key={text}>
            {text}
          </p>
        ))}
      </div>
      <Steps options={options} steps={steps} output={output} />
      <BeforeAndAfter options={options} steps={steps} output={output} />
      <Everything>
        {!normalized.some(Number.isNaN) && <Blindness options={options} steps={steps} />}
      </Everything>
    </>
  );
}

type ResultsProps = StepsProps & { output: readonly number[] };

/** One card for each step, and beside them the code of all steps. */
function Steps({ options, steps, output }: ResultsProps) {
  return (
    <div class="st-steps">
      <Cards options={options} steps={steps} output={output} />
      <StepCode options={options} />
    </div>
  );
}

function Cards({ options, steps, output }: ResultsProps) {
  const { x, mean, variance, deviation, centred, normalized } = steps;
  const [gamma, beta] = [state.gamma.value, state.beta.value];
  const rms = options.kind === 'rms';
  const spread = symmetricRange(centred, Math.max(deviation, leastRange(centred)));
  // Steps 3 and 4 share one range, so that they can be compared.
  const range = symmetricRange([...normalized, ...output].filter(Number.isFinite), 3);
  return (
    <div class="st-cards">
      <Card
        title={t`1. Mean`}
        step={1}
        tex={rms ? undefined : arithmetic.meanFormula(steps)}
        statistics={rms ? undefined : [['mean', t`mean μ`, mean]]}
        chart={<InputChart x={x} mean={rms ? undefined : mean} />}
      >
        {rms
          ? t`RMSNorm skips this step: it subtracts no mean. This saves work, and many models train
              just as well. So a shift of all values changes its result.`
          : t`The dashed line is the mean of the values.`}
      </Card>
      <Card
        title={rms ? t`2. Root mean square` : t`2. Variance and deviation`}
        step={2}
        tex={arithmetic.deviationFormula(options, steps)}
        statistics={[
          ['variance', rms ? t`mean square` : t`variance`, variance],
          ['deviation', rms ? t`root mean square σ` : t`deviation σ`, deviation],
        ]}
        chart={
          <StepChart
            name={rms ? t`The values and their root mean square` : t`Deviations from the mean`}
            row={{ name: rms ? 'x' : 'x − μ', id: 'centred', values: centred }}
            colour="var(--stream)"
            range={spread}
            spread={deviation}
          />
        }
      >
        {rms
          ? t`σ says how large the values typically are. The dotted lines stand at ±σ.`
          : t`σ says how far the values typically lie from the mean. The dotted lines stand at ±σ.`}{' '}
        <WithTerms text={t`The small number ε (10⁻⁵ by default) keeps σ from being 0.`} />
      </Card>
      <Card
        title={t`3. Normalize`}
        step={3}
        tex={arithmetic.normalizeFormula(options, steps)}
        chart={
          <StepChart
            name={t`The normalized values`}
            row={{ name: 'x̂', id: 'normalized', values: normalized }}
            colour="var(--normalized)"
            range={range}
          />
        }
      >
        {rms ? t`Divide by σ.` : t`Subtract the mean and divide by σ.`}
      </Card>
      <Card
        title={t`4. Scale and shift`}
        step={4}
        tex={arithmetic.outputFormula(gamma, beta, normalized, output)}
        chart={
          <StepChart
            name={t`The output`}
            row={{ name: 'y', id: 'output', values: output }}
            colour="var(--output)"
            range={range}
          />
        }
        controls={
          <div class="controls">
            <Slider label={t`Scale γ`} item={state.gamma} />
            <Slider label={t`Shift β`} item={state.beta} />
          </div>
        }
      >
        {t`Times γ, plus β. A model learns one γ and one β for each feature; here one pair serves all.
        The scale of the picture is that of step 3.`}
        {rms && ` ${t`RMSNorm has no β in most models: set it to 0 to match them.`}`}
      </Card>
    </div>
  );
}

interface CardProps {
  title: string;
  step: number; // from 1
  tex?: string;
  statistics?: [id: string, name: string, value: number][];
  chart: ComponentChildren;
  controls?: ComponentChildren; // the chart's controls
  children: ComponentChildren;
}

function Card({ title, step, tex, statistics, chart, controls, children }: CardProps) {
  return (
    <article class="card st-card" {...lightWhenSeen(step)}>
      <h3>{title}</h3>
      <div>
        {chart}
        {controls}
      </div>
      <div>
        <p>{children}</p>
        {tex && <Formula tex={tex} block />}
        {statistics && (
          <Statistics
            look="inline"
            rows={statistics.map(([id, name, value]) => [id, name, <Rounded value={value} />])}
          />
        )}
      </div>
    </article>
  );
}

function BeforeAndAfter({ options, steps, output }: ResultsProps) {
  const places = [
    { name: 'x', id: 'x', values: steps.x, colour: 'var(--stream)' },
    { name: 'x̂', id: 'normalized', values: steps.normalized, colour: 'var(--normalized)' },
    { name: 'y', id: 'output', values: output, colour: 'var(--output)' },
  ].map((place) => ({ ...place, measured: measure(place.values, options) }));
  const columns = (['mean', 'deviation', 'rms'] as const).map((measure) =>
    alignedNumbers(places.map(({ measured }) => measured[measure])),
  );
  const many = steps.x.length >= HISTOGRAM_FROM;
  return (
    <>
      <h3>{t`Before and after`}</h3>
      <p>
        {many
          ? t`Each column counts the values in its range.`
          : t`Each dot is one value, and the curve smooths them.`}{' '}
        {t`The dashed line is the mean; the band reaches one deviation to either side. x has its own
        scale; x̂ and y share one. The shape stays the same: a norm only moves and stretches the
        values of a vector.`}
      </p>
      <NumberLines places={places} />
      <DataTable
        caption={t`Measured, without ε`}
        visible
        columns={[t`values`, t`mean`, t`deviation`, t`RMS`]}
        rows={places.map(({ name, id }, i) => ({
          head: name,
          cells: columns.map((texts) => texts[i]),
          data: { measured: id },
        }))}
      />
    </>
  );
}

const CHANGES = [
  { name: 'x + 10', button: t`Add 10`, change: (v: number) => v + 10 },
  { name: '10 · x', button: t`Times 10`, change: (v: number) => 10 * v },
];

/** The changes of x that the norm ignores. */
function Blindness({ options, steps }: StepsProps) {
  const { x } = steps;
  const rms = options.kind === 'rms';
  return (
    <>
      <h3>{t`What the norm ignores`}</h3>
      <p>
        {rms
          ? t`RMSNorm ignores the scale of its input: the changes below come from ε and rounding. It
              does not ignore a shift, as it subtracts no mean.`
          : t`LayerNorm ignores a shift and the scale of its input: the changes below come from ε
              and rounding.`}
      </p>
      <ul class="plain-list">
        {CHANGES.map(({ name, button, change }) => (
          <li key={name} class="buttons">
            <Button
              onClick={() => (state.x.value = x.map(change))}
              disabled={x.some((v) => Math.abs(change(v)) > LIMIT)}
            >
              {button}
            </Button>
            <span data-change={name}>
              <Trans>
                {{ name }} changes x̂ by at most{' '}
                {{
                  change: (
                    <Formula tex={texNumber(changeOfNormalized(options, steps, change), 2)} />
                  ),
                }}
              </Trans>
            </span>
          </li>
        ))}
      </ul>
    </>
  );
}
