// Stream and gradient by layer at initialization, for this arrangement, post-norm and pre-norm.

import type { Placement } from '../../kernels/kernels';
import { t, Trans } from '../../language/text';
import { LayerChart, LayerHint, type Signal } from '../../stacks/charts';
import { curve, SCALE, verdict } from '../../stacks/verdict';
import { Advanced } from '../../ui/advanced';
import { Choice, Presets, Slider, TextField } from '../../ui/controls';
import { Balance } from './balance';
import { Wait } from '../../ui/room';
import { FIRST_WEIGHTS } from '../../ui/names';
import { useNear } from '../../ui/near';
import { jobOf, measured, measureProblem, request, shownStacks } from './measured';
import { PlacementList } from './placement-list';
import { state } from './state';

const BARE = {
  before: false,
  inside: false,
  after: false,
  final: false,
  skip: 'none',
  gain: 'none',
  scale: 'none',
  weights: 'none',
} as const;

const EXPERIMENTS = [
  { name: t`Break it: no norm`, ...BARE, first: 'xavier', layers: 24 },
  { name: t`Repair it: pre-norm`, ...BARE, before: true, final: true, first: 'xavier', layers: 24 },
  { name: t`Repair it: post-norm`, ...BARE, after: true, first: 'xavier', layers: 24 },
] as const;

export function Curves({ table }: { table: Placement[] }) {
  const job = jobOf(table);
  const element = useNear<HTMLDivElement>(job, () => request(job));
  return (
    <div ref={element}>
      <Presets label={t`Experiments`} state={state} presets={EXPERIMENTS} />
      <div class="controls">
        <Slider label={t`Layers`} item={state.layers} />
        <Choice label={t`Initial weights`} item={state.first} labels={FIRST_WEIGHTS} />
      </div>
      <Advanced title={t`Placement and seed`}>
        <div class="controls">
          <PlacementList table={table} />
          <TextField label={t`Seed`} item={state.seed} />
        </div>
      </Advanced>
      <Measured />
    </div>
  );
}

function Measured() {
  if (measureProblem.value) {
    return (
      <p>
        <Trans>These stacks cannot be measured; see the message beside the text.</Trans>
      </p>
    );
  }
  if (measured.value) return <Charts />;
  return <Wait height={[1370, 785, 745]}>{t`The stacks are being measured.`}</Wait>;
}

function Charts() {
  const { job, milliseconds } = measured.value!;
  const stacks = shownStacks()!;
  const curves = (of: Signal) =>
    stacks.map(({ measurement, ...shown }) => ({ ...shown, values: curve(measurement[of]) }));
  const [{ name, measurement }] = stacks;
  return (
    <>
      <div class="charts">
        <LayerChart of="stream" curves={curves('stream')} />
        <LayerChart of="gradient" curves={curves('gradient')} />
      </div>
      <p data-verdict="measured">
        <strong>{name}.</strong> {verdict(measurement)}
      </p>
      <LayerHint last={job.stacks[0].options.layers}>
        {SCALE} {t`Measured in ${Math.round(milliseconds)} ms.`}
      </LayerHint>
      <p>
        <Trans>
          The pros and cons of each, measured on these stacks. For the gradient near 1× is best.
        </Trans>
      </p>
      <Balance stacks={stacks} />
      <p>
        <Trans>
          Post-norm’s may be nearer. But with PyTorch’s or Xavier’s weights its token similarity
          nears 1 with fewer layers, and it needs warm-up: so most deep models use pre-norm.
        </Trans>
      </p>
    </>
  );
}
