// Live training without and with warm-up.

import { signal } from '@preact/signals';
import { useEffect, useMemo } from 'preact/hooks';
import type { Placement } from '../../kernels/kernels';
import { t, translated } from '../../language/text';
import { Button, Choice, Problem, Slider, TextField } from '../../ui/controls';
import { LineChart } from '../../ui/line-chart';
import { FIRST_WEIGHTS } from '../../ui/names';
import { grouped, roundNumber } from '../../ui/numbers';
import { DataTable } from '../../ui/table';
import { OWN, rowOf } from './arrangement';
import { measureProblem } from './measured';
import { HealthChart, healthWords } from './health';
import { IN_LINK } from './long-text';
import { PlacementList } from './placement-list';
import { chosenStack, chosenText } from './stack';
import { state } from './state';
import { TrainGuess } from './train-guess';
import { runningMeans, type Setup, Training } from './training';
import { lossText, type Outcome, verdict } from './verdict';

const WINDOW = 10; // steps of the running mean

const training = new Training();
interface Finished {
  setup: Setup;
  outcome: Outcome;
  losses: (readonly number[])[]; // without and with warm-up
}
/** The trainings that have finished since the page was opened, the newest first. */
const finished = signal<Finished[]>([]);

/** Stops the training and clears the list of finished ones. */
export function resetTraining(): void {
  training.reset();
  finished.value = [];
}

async function train(run: Promise<void>) {
  await run;
  const outcome = outcomeOf(training);
  if (training.status.value !== 'done' || outcome === undefined) return;
  const setup = training.setup.value!;
  if (finished.value[0]?.setup === setup) return;
  const losses = training.runs.value.map((run) => run.losses.value);
  finished.value = [{ setup, outcome, losses }, ...finished.value];
}

function outcomeOf({ opened, runs, setup }: Training): Outcome | undefined {
  const [without, warmed] = runs.value.map((run) => run.validation.value);
  if (opened.value === undefined || without === undefined || warmed === undefined) return undefined;
  const { steps } = setup.value!;
  return { steps, unigram: opened.value.unigramLoss, without, with: warmed };
}

function chosenSetup(table: Placement[]): Setup {
  const { arrangement, options } = chosenStack();
  const learningRate = Number(state.rate.value);
  const stack = { arrangement, options: { ...options, learningRate, warmUp: state.warmup.value } };
  const name = rowOf(arrangement, table)?.name ?? OWN;
  return { name, stack, steps: state.steps.value, text: chosenText() };
}

export function Train({ table }: { table: Placement[] }) {
  const setup = chosenSetup(table);
  useEffect(() => {
    training.problem.value = ''; // it belongs to the previous settings
  }, [JSON.stringify(setup)]);
  return (
    <>
      <TrainGuess outcome={finished.value.find(({ setup }) => setup.name === 'post')?.outcome} />
      <div class="controls">
        <PlacementList table={table} />
        <Choice label={t`Learning rate`} item={state.rate} />
      </div>
      <More />
      <OtherStack />
      {measureProblem.value && (
        <Problem text={t`This does not work: ${translated(measureProblem.value)}.`} />
      )}
      <Buttons setup={setup} />
      <Problem text={measureProblem.value ? '' : training.problem.value} />
      {training.setup.value && <Progress shown={training.setup.value} chosen={setup} />}
      {finished.value.length > 0 && <FinishedTable />}
    </>
  );
}

/** A remark if the layers or initial weights, shared with the figures above, are not the defaults. */
function OtherStack() {
  const items = [state.layers, state.first] as const;
  if (items.every(({ value, field }) => value === field.initial)) return null;
  return (
    <p class="remark">
      {t`These runs use ${state.layers.value} layers and the initial weights
        ${FIRST_WEIGHTS[state.first.value]}, as set above.`}{' '}
      <Button onClick={() => items.forEach((item) => item.reset())}>
        {t`Use 12 layers and PyTorch’s weights`}
      </Button>
    </p>
  );
}

/** Settings that most readers leave at their defaults. */
function More() {
  return (
    <details>
      <summary>{t`Layers, initial weights, steps and text`}</summary>
      <div class="controls">
        <Slider label={t`Layers`} item={state.layers} />
        <Choice label={t`Initial weights`} item={state.first} labels={FIRST_WEIGHTS} />
        <TextField label={t`Seed`} item={state.seed} />
      </div>
      <div class="controls">
        <TextField label={t`Steps`} item={state.steps} />
        <TextField label={t`Warm-up steps`} item={state.warmup} />
      </div>
      {state.warmup.value > state.steps.value && (
        <p class="hint">
          {t`The warm-up is longer than the training: its learning rate never reaches ${state.rate.value}.`}
        </p>
      )}
      <TextChoice />
    </details>
  );
}

const HINT = t`The link does not keep a text of more than ${grouped(IN_LINK)} characters. The text
  never leaves this page.`;

function TextChoice() {
  const pasted = state.source.value === 'pasted';
  return (
    <>
      <div class="controls">
        <Choice
          label={t`Text to train on`}
          item={state.source}
          labels={{ bundled: t`Genesis, in the King James Version`, pasted: t`my own` }}
        />
      </div>
      {pasted && (
        <TextField
          label={t`Your text`}
          item={state.text}
          rows={6}
          format={(text) => text}
          hint={HINT}
        />
      )}
    </>
  );
}

/** Whether a field that training uses has an invalid value. */
function isRefused(): boolean {
  const { curves: _, text, ...used } = state;
  const pasted = state.source.value === 'pasted' ? [text] : [];
  return [...Object.values(used), ...pasted].some((item) => item.problem.value !== '');
}

function Buttons({ setup }: { setup: Setup }) {
  const status = training.status.value;
  const refused = isRefused();
  return (
    <div class="buttons">
      {status === 'running' && (
        <Button kind="danger" onClick={() => training.stop()}>
          {t`Stop`}
        </Button>
      )}
      {status === 'stopped' && (
        <Button kind="primary" onClick={() => train(training.goOn())}>
          {t`Go on`}
        </Button>
      )}
      {(status === 'idle' || status === 'done') && (
        <Button kind="primary" disabled={refused} onClick={() => train(training.start(setup))}>
          {t`Start training`}
        </Button>
      )}
      <Button disabled={status === 'idle'} onClick={() => training.reset()}>
        {t`Reset training`}
      </Button>
      <Problem text={refused ? t`A field above has an invalid value: correct it to start.` : ''} />
    </div>
  );
}

function Progress({ shown, chosen }: { shown: Setup; chosen: Setup }) {
  const { steps } = shown;
  const runs = training.runs.value;
  const [a, b] = runs.map((run) => run.losses.value.length);
  const milliseconds = runs.map((run) => Math.round(run.stepMilliseconds));
  const outcome = outcomeOf(training);
  return (
    <>
      <label class="placement-progress">
        <progress max={2 * steps} value={a + b} /> {t`step ${Math.min(a, b)} of ${steps}`}
        {a > 0 && b > 0 && t`, ${milliseconds[0]} and ${milliseconds[1]} ms a step`}
      </label>
      <div class="controls">
        <Choice
          label={t`Loss shown`}
          item={state.curves}
          labels={{ mean: t`mean of the last ${WINDOW} steps`, each: t`each step` }}
        />
      </div>
      <div class="charts">
        <Losses setup={shown} />
        <HealthChart
          runs={runs.map((run, i) => ({
            name: namesOf(shown)[i],
            colour: COLOURS[i],
            health: run.health.value,
          }))}
        />
      </div>
      <div role="status">
        {outcome && (
          <div class="remark">
            <p class="placement-verdict" data-verdict="trained">
              {verdict(outcome)}
            </p>
            <p>{healthWords(runs[0].health.value, runs[1].health.value)}</p>
          </div>
        )}
      </div>
      {JSON.stringify(shown) !== JSON.stringify(chosen) && (
        <p class="hint">{t`The switches or controls have changed since this training began.`}</p>
      )}
    </>
  );
}

function namesOf({ stack }: Setup): string[] {
  return [t`without warm-up`, t`warm-up over ${stack.options.warmUp} steps`];
}

const COLOURS = ['var(--series-2)', 'var(--series-1)']; // without and with warm-up

function Losses({ setup }: { setup: Setup }) {
  const { name, steps, stack } = setup;
  const { layers, learningRate, seed, initialization } = stack.options;
  const x = useMemo(() => Array.from({ length: steps }, (_, step) => step + 1), [steps]);
  const unigram = training.opened.value?.unigramLoss ?? null;
  const values = (losses: readonly number[]) => {
    const shown = state.curves.value === 'mean' ? runningMeans(losses, WINDOW) : losses;
    return x.map((_, i) => (Number.isFinite(shown[i]) ? shown[i] : null));
  };
  const curves = training.runs.value.map((run, i) => ({
    name: namesOf(setup)[i],
    colour: COLOURS[i],
    values: values(run.losses.value),
  }));
  const before = finished.value.find((other) => other.setup !== setup);
  const faint = before?.losses.map((losses, i) => ({
    name: t`${before.setup.name}, ${namesOf(before.setup)[i]} (before)`,
    colour: COLOURS[i],
    dash: '3 4',
    width: 1,
    values: values(losses),
  }));
  return (
    <LineChart
      name={t`Loss of ${name}, ${layers} layers, ${FIRST_WEIGHTS[initialization]}, learning rate ${learningRate}, seed ${seed}`}
      xLabel={t`step`}
      yLabel={t`nats per byte`}
      x={x}
      curves={[
        ...curves,
        ...(faint ?? []),
        {
          name: t`byte frequencies alone`,
          colour: 'var(--theory)',
          dash: '6 5',
          values: x.map(() => unigram),
        },
      ]}
      height={320}
    />
  );
}

const COLUMNS = [
  t`placement`,
  t`layers`,
  t`initial weights`,
  t`rate`,
  t`steps`,
  t`seed`,
  t`without warm-up`,
  t`with warm-up`,
  t`byte frequencies`,
];

function FinishedTable() {
  const rows = finished.value.map(({ setup: { name, stack, steps }, outcome }) => {
    const { layers, learningRate, seed, initialization } = stack.options;
    const losses = [outcome.without, outcome.with, outcome.unigram].map(lossText);
    return {
      head: name,
      cells: [
        layers,
        FIRST_WEIGHTS[initialization],
        roundNumber(learningRate),
        steps,
        seed,
        ...losses,
      ],
      data: { trained: name },
    };
  });
  return (
    <div class="placement-finished">
      <DataTable
        caption={t`Runs so far: loss on held-out text, in nats per byte`}
        visible
        columns={COLUMNS}
        rows={rows}
      />
      <Button onClick={() => (finished.value = [])}>{t`Clear the table`}</Button>
    </div>
  );
}
