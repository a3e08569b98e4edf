// Stream and gradient by layer at initialization: this arrangement beside post and pre.

import type { Placement } from '../../kernels/kernels';
import type { Stack } from '../../kernels/session-host';
import { type MeasureJob, Measurer } from '../../kernels/sessions';
import { LayerChart, LayerHint, type Signal } from '../../stacks/charts';
import { curve, verdict } from '../../stacks/verdict';
import { Choice, Slider, TextField } from '../../ui/controls';
import { Wait } from '../../ui/room';
import { FIRST_WEIGHTS } from '../../ui/names';
import { useNear } from '../../ui/near';
import { chosenArrangement, rowOf } from './arrangement';
import { state } from './state';

const LOOKS = [
  { colour: 'var(--series-2)' },
  { colour: 'var(--series-1)', dash: '10 4' },
  { colour: 'var(--series-3)', dash: '3 4' },
];

interface NamedJob extends MeasureJob {
  names: string[];
}

const measurer = new Measurer<NamedJob>();

/** What is wrong with the text or the stack, in the kernels' words. */
export const measureProblem = measurer.problem;

export function chosenText(): string | undefined {
  return state.source.value === 'pasted' ? state.text.value : undefined;
}

/** The stack of the switchboard. The options of training do not affect its first weights. */
export function chosenStack(): Stack {
  return {
    arrangement: chosenArrangement(),
    options: {
      layers: state.layers.value,
      width: 32,
      heads: 2,
      context: 32,
      batch: 8,
      learningRate: 1e-3,
      warmUp: 0,
      seed: state.seed.value,
      initialization: state.first.value,
      norm: state.norm.value,
    },
  };
}

export function Curves({ table }: { table: Placement[] }) {
  const job = jobOf(table);
  const element = useNear<HTMLDivElement>(job, () => measurer.request(job));
  return (
    <div ref={element}>
      <div class="controls">
        <Slider label="Layers" item={state.layers} />
        <Choice label="First weights" item={state.first} labels={FIRST_WEIGHTS} />
        <TextField label="Seed" item={state.seed} />
      </div>
      <Measured />
    </div>
  );
}

function Measured() {
  if (measureProblem.value) {
    return <p>These stacks cannot be measured; the reason stands beside the text.</p>;
  }
  if (measurer.measured.value) return <Charts />;
  return <Wait height={[860, 455, 455]}>The stacks are being measured.</Wait>;
}

function jobOf(table: Placement[]): NamedJob {
  const { arrangement, options } = chosenStack();
  const row = rowOf(arrangement, table);
  const others = table.filter((p) => ['post', 'pre'].includes(p.name) && p !== row);
  return {
    names: [row ? `${row.name} (this one)` : 'your own', ...others.map(({ name }) => name)],
    stacks: [arrangement, ...others].map((a) => ({ arrangement: a, options })),
    text: chosenText(),
  };
}

function Charts() {
  const { job, measurements, milliseconds } = measurer.measured.value!;
  const { layers } = job.stacks[0].options;
  const curves = (of: Signal) =>
    measurements.map((m, i) => ({ name: job.names[i], ...LOOKS[i], values: curve(m[of]) }));
  return (
    <>
      <div class="charts">
        <LayerChart of="stream" curves={curves('stream')} />
        <LayerChart of="gradient" curves={curves('gradient')} />
      </div>
      <p data-verdict="measured">
        <strong>{job.names[0]}.</strong> {verdict(measurements[0])}
      </p>
      <LayerHint last={layers}>Measured in {Math.round(milliseconds)} ms.</LayerHint>
    </>
  );
}
