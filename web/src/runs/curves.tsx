// Loss, gradient norm and learning rate over the steps.

import { useMemo } from 'preact/hooks';
import { t } from '../language/text';
import { Choice, Slider } from '../ui/controls';
import { LineChart } from '../ui/line-chart';
import { grouped } from '../ui/numbers';
import { mean } from '../ui/vectors';
import { changes, logOf, type Run, shownRuns } from './feed';
import { looksOf } from './looks';
import {
  align,
  type Join,
  largest,
  last,
  type Metrics,
  type Point,
  positive,
  smooth,
  type Step,
  stepsPerPoint,
  thin,
} from './metrics';
import { state } from './state';

const MOST_POINTS = 400;
const MOST_DOTS = 50;

export function Curves() {
  const shown = shownRuns.value;
  const smoothing = state.smoothing.value;
  const logarithmic = state.scale.value === 'logarithmic';
  const looks = JSON.stringify(shown.map(looksOf)); // stays equal while the runs progress
  const { each, ...charts } = useMemo(
    () => curvesOf(shown, smoothing, logarithmic),
    [looks, smoothing, logarithmic, changes.value],
  );
  return (
    <section aria-labelledby="curves">
      <h2 id="curves">{t`Over the steps`}</h2>
      <div class="controls">
        <Slider label={t`Smoothing`} item={state.smoothing} />
        <Choice
          label={t`Scale of the loss`}
          item={state.scale}
          labels={{ linear: t`linear`, logarithmic: t`logarithmic` }}
        />
      </div>
      <LineChart
        name={t`Training loss, and validation loss (dots)`}
        xLabel={t`step`}
        yLabel={t`nats per byte`}
        {...charts.loss}
        logarithmic={logarithmic}
        height={340}
      />
      <div class="charts">
        <LineChart
          name={t`Gradient norm`}
          xLabel={t`step`}
          yLabel={t`gradient norm`}
          {...charts.gradient}
          logarithmic
        />
        <LineChart name={t`Learning rate`} xLabel={t`step`} yLabel={t`rate`} {...charts.rate} />
      </div>
      {each > 1 && (
        <p class="hint">
          {t`Each point stands for ${grouped(each)} steps: the mean of their smoothed losses, their
            largest gradient norm, or their last learning rate.`}
        </p>
      )}
    </section>
  );
}

function curvesOf(shown: readonly Run[], smoothing: number, logarithmic: boolean) {
  const metrics = shown.map((run) => logOf(run).metrics.value);
  const lastStep = Math.max(0, ...metrics.map(({ steps }) => steps.at(-1)?.step ?? 0));
  const each = stepsPerPoint(lastStep, MOST_POINTS);
  const lines = (points: (of: Metrics) => Point[], join: Join) =>
    shown.map((run, i) => ({ ...looksOf(run), points: thin(points(metrics[i]), each, join) }));
  const dots = shown.flatMap((run, i) => {
    const { name, colour } = looksOf(run);
    const points = thin(metrics[i].validation, stepsPerPoint(lastStep, MOST_DOTS), last);
    return points.length ? { name: t`${name}, validation`, colour, dots: true, points } : [];
  });
  const loss = lines((of) => smooth(pointsOf(of, 'loss'), smoothing), mean);
  const gradient = lines((of) => pointsOf(of, 'gradient_norm'), largest);
  const rate = lines((of) => pointsOf(of, 'learning_rate'), last);
  return {
    each,
    loss: chart([...loss, ...dots], logarithmic),
    gradient: chart(gradient, true),
    rate: chart(rate, false),
  };
}

function pointsOf({ steps }: Metrics, name: keyof Step): Point[] {
  return steps.map((step) => [step.step, step[name]]);
}

/** The properties of a LineChart. */
function chart<C extends { points: Point[] }>(curves: C[], logarithmic: boolean) {
  const { x, columns } = align(curves.map(({ points }) => points));
  const shown = logarithmic ? columns.map((values) => values.map(positive)) : columns;
  return { x, curves: curves.map(({ points, ...looks }, i) => ({ ...looks, values: shown[i] })) };
}
