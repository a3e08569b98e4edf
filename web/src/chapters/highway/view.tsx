import { INITIALIZATIONS } from 'addnorm';
import { useEffect, useMemo } from 'preact/hooks';
import { kernels } from '../../kernels/current';
import { type MeasureJob, type Measured, Measurer } from '../../kernels/sessions';
import { t, Trans } from '../../language/text';
import { LayerChart, LayerHint, type Signal } from '../../stacks/charts';
import { curve, endsOf, fateOf, SCALE, verdict } from '../../stacks/verdict';
import { Advanced } from '../../ui/advanced';
import { ChapterLink, Choice, Failure, Slider, TextField } from '../../ui/controls';
import { Formula } from '../../ui/formula';
import { LineChart } from '../../ui/line-chart';
import { FIRST_WEIGHTS, PLACEMENT_NAMES } from '../../ui/names';
import { useNear } from '../../ui/near';
import { roundNumber } from '../../ui/numbers';
import { Wait } from '../../ui/room';
import { Everything } from '../../ui/route';
import { DataTable } from '../../ui/table';
import { state } from './state';
import { LANES, lanesOf, stacks } from './stacks';
import { summary } from './summary';
import './style.css';

interface KeyedJob extends MeasureJob {
  key: string; // identifies the controls' values
}
const chosen = new Measurer<KeyedJob>();
const others = new Measurer<KeyedJob>(); // the same stacks with every kind of initial weights

export function Highway() {
  const table = useMemo(() => kernels.placements(), []);
  const choice = {
    layers: state.layers.value,
    width: Number(state.width.value),
    both: state.both.value,
    first: state.first.value,
    seed: state.seed.value,
  };
  const key = JSON.stringify(choice);
  const element = useNear<HTMLDivElement>(key, () =>
    chosen.request({ key, stacks: stacks(table, choice), text: undefined }),
  );
  const measured = chosen.measured.value;
  useEffect(() => {
    if (measured?.job.key !== key) return; // the slider has moved since
    const all = INITIALIZATIONS.flatMap((first) => stacks(table, { ...choice, first }));
    others.request({ key, stacks: all, text: undefined });
  }, [measured, key]);
  return (
    <div ref={element}>
      <Story />
      <Controls />
      <Failure text={chosen.problem.value} />
      {measured ? (
        <Results measured={measured} />
      ) : (
        <Wait height={[1640, 1040, 700]}>{t`The four stacks are being measured.`}</Wait>
      )}
      <Everything>
        {measured && others.measured.value ? (
          <OtherWeights measured={others.measured.value} wanted={measured.job} />
        ) : (
          <Wait height={[540, 360, 340]}>{t`The other initial weights are measured
            afterwards.`}</Wait>
        )}
      </Everything>
      <p>
        <Trans>
          Transformers have both. The next question is{' '}
          <ChapterLink to="placement">where the norm goes</ChapterLink>.
        </Trans>
      </p>
    </div>
  );
}

function Controls() {
  return (
    <div data-step>
      <div class="controls">
        <Slider label={t`Layers`} item={state.layers} />
        <Choice label={t`Initial weights`} item={state.first} labels={FIRST_WEIGHTS} />
      </div>
      <Advanced
        title={t`Width, norm, scale and seed`}
        state={[state.width, state.both, state.scale, state.seed]}
      >
        <div class="controls">
          <Choice label="d_model" item={state.width} />
          <Choice label={t`Norm in “Both”`} item={state.both} labels={PLACEMENT_NAMES} />
          <Choice
            label={t`Curves`}
            item={state.scale}
            labels={{ absolute: t`as measured`, relative: t`relative to their start` }}
          />
          <TextField label={t`Seed`} item={state.seed} />
        </div>
      </Advanced>
    </div>
  );
}

const WITHOUT = String.raw`\text{${t`without:`} }
  \frac{\partial x_N}{\partial x_0} = \prod_{l=1}^{N} F'_l`;
const WITH = String.raw`\begin{aligned} \text{${t`with:`} }
  \frac{\partial x_N}{\partial x_0} &= \prod_{l=1}^{N} \bigl(1 + F'_l\bigr) \\
  &= 1 + \sum_{l} F'_l + \cdots \end{aligned}`;

function Story() {
  return (
    <>
      <p>
        <Trans>
          A Transformer is a stack of sublayers. The signal goes up through all of them; the
          gradient comes back down through all of them. Without a residual connection every sublayer
          multiplies both by a factor. A product of many factors soon becomes tiny or huge.
        </Trans>
      </p>
      <p>
        <Trans>
          A residual connection is a highway beside the sublayer: the signal continues unchanged,
          and the sublayer only adds to it. It was invented to solve the degradation problem: He et
          al. 2016 found that a deeper plain network has a higher error, even on its training data.
          In the derivative the highway is the 1:
        </Trans>
      </p>
      <div class="highway-formulas">
        <Formula block tex="y = x + F(x)" />
        <Formula block tex={String.raw`\frac{\partial y}{\partial x} = 1 + F'(x)`} />
      </div>
      <Advanced title={t`The derivative of a whole stack`}>
        <p>
          <Trans>Over a whole stack the chain rule multiplies these derivatives:</Trans>
        </p>
        <div class="highway-formulas">
          <Formula block tex={WITHOUT} />
          <Formula block tex={WITH} />
        </div>
        <p>
          <Trans>
            Multiplied out (He et al. 2016, Identity Mappings), the second product has a term 1 that
            does not depend on any sublayer: along this path the gradient reaches layer 0 without
            shrinking. The other terms may still make the gradient grow or, near F′ = −1, cancel it.
            The norm keeps F’s input in range, and with it F′. The position of the norm matters.
            With the norm before F (pre-norm, the default below), the 1 stays unchanged. With the
            norm after the sum (post-norm, as in chapter 1), each norm also divides the gradient on
            the path past F by its σ. This is again a product of many factors, but they are milder.
          </Trans>
        </p>
      </Advanced>
      <p>
        <Trans>
          Below are four real decoders: with neither residuals nor norms, with one of the two, and
          with both. In the last one, the norm stands {{ place: PLACES[state.both.value] }}. Each
          decoder runs forward and backward once on the same 32 bytes of text. The charts show the
          root mean square (RMS) of the stream and of its gradient. Nothing has been learned yet:
          the initial weights are random numbers, and each recipe gives them a different size. A
          network whose gradient is lost with its initial weights hardly begins to learn. Size alone
          is no signal: tokens that carry the same vector cannot be distinguished. So the third
          chart shows their similarity.
        </Trans>
      </p>
    </>
  );
}

const PLACES = {
  pre: t`before each sublayer (pre-norm)`,
  post: t`after each sum (post-norm)`,
};

const COSINES = [0, 1] as const;
const finite = (v: number) => (Number.isFinite(v) ? v : null);

function Results({ measured }: { measured: Measured<MeasureJob> }) {
  const { job, measurements, milliseconds } = measured;
  const { layers } = job.stacks[0].options;
  const lanes = lanesOf(job.stacks);
  const relative = state.scale.value === 'relative';
  const curves = (of: Signal, start: number) =>
    measurements.map((m, i) => ({
      ...lanes[i],
      values: curve(m[of], relative ? start : undefined),
    }));
  return (
    <>
      <div class="charts">
        <LayerChart of="gradient" curves={curves('gradient', -1)} relative={relative} />
        <LayerChart of="stream" curves={curves('stream', 0)} relative={relative} />
        <LineChart
          name={t`Token similarity: mean cosine of two tokens`}
          xLabel={t`layer`}
          yLabel={t`cosine`}
          curves={measurements.map((m, i) => ({ ...lanes[i], values: m.tokenCosine.map(finite) }))}
          atLeast={COSINES}
        />
      </div>
      <LayerHint last={layers}>
        {t`Measured in ${Math.round(milliseconds)} ms: four stacks of ${layers} layers, forward and
          backward.`}
      </LayerHint>
      <ul class="plain-list">
        {measurements.map((m, i) => (
          <li
            key={i}
            class="remark"
            data-stack={lanes[i].name}
            style={{ borderColor: lanes[i].colour }}
          >
            <strong>{lanes[i].name}.</strong> {verdict(m)}
          </li>
        ))}
      </ul>
      <p>
        <Trans>
          Is the residual enough? Choose Xavier, whose initial weights are larger: now “Residual
          only” explodes, and “Both” stays in range. Each branch adds its variance to the stream, as
          variances of independent terms add up. The norm gives every branch an input of one size,
          so depth and initial weights matter far less.
        </Trans>
      </p>
    </>
  );
}

interface OtherWeightsProps {
  measured: Measured<KeyedJob>;
  wanted: KeyedJob; // the requested stacks; the measured ones may have other settings
}

function OtherWeights({ measured: { job, measurements }, wanted }: OtherWeightsProps) {
  const isWanted = job.key === wanted.key;
  const { layers } = wanted.stacks[0].options;
  const gradients = LANES.map((_, lane) =>
    INITIALIZATIONS.map((_, i) => endsOf(measurements[i * LANES.length + lane]).gradient),
  );
  return (
    <div class="highway-others">
      <h3>{t`The effect of the initial weights`}</h3>
      <DataTable
        caption={t`Layer 0’s gradient over layer ${layers - 1}’s, by initial weights`}
        visible
        columns={[t`stack`, ...INITIALIZATIONS.map((first) => FIRST_WEIGHTS[first])]}
        rows={LANES.map(({ name }, lane) => ({
          head: name,
          cells: gradients[lane].map((gradient) =>
            isWanted ? <Gradient ratio={gradient} /> : '…',
          ),
          data: { gradient: name },
        }))}
      />
      <p>{isWanted ? summary(gradients) : t`The other initial weights are being measured.`}</p>
      <p class="hint">
        {SCALE}{' '}
        {t`PyTorch’s nn.Linear draws weights within ±1/√in. Xavier’s are larger, within ±√(6/(in +
          out)). GPT-2’s are N(0, 0.02²), and smaller where a sublayer writes into the stream.`}
      </p>
    </div>
  );
}

const FATES: Record<ReturnType<typeof fateOf>, string> = {
  vanishes: t`vanishes`,
  shrinks: t`shrinks`,
  arrives: t`arrives`,
  grows: t`grows`,
  explodes: t`explodes`,
  overflows: t`overflows`,
};

function Gradient({ ratio }: { ratio: number }) {
  const fate = fateOf(ratio);
  return (
    <span class={fate === 'arrives' ? 'good' : 'bad'} data-fate={fate}>
      {Number.isFinite(ratio) && `${roundNumber(ratio, 2)} · `}
      {FATES[fate]}
    </span>
  );
}
