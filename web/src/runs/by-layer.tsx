// The stream and its gradient by layer, at a step at which the runs were profiled.

import { useMemo } from 'preact/hooks';
import { t } from '../language/text';
import { LayerChart, LayerHint, type Signal } from '../stacks/charts';
import { Slider } from '../ui/controls';
import { grouped } from '../ui/numbers';
import { changes, logOf, type Run, shownRuns } from './feed';
import { looksOf } from './looks';
import { positive } from './metrics';
import { placesAt } from './profile';
import { LAST_STEP, state } from './state';

export function ByLayer() {
  const shown = shownRuns.value;
  const step = state.profiled.value;
  const looks = JSON.stringify(shown.map(looksOf));
  const steps = useMemo(() => profiledSteps(shown), [looks, changes.value]);
  const curves = useMemo(() => curvesAt(shown, step), [looks, step, changes.value]);
  return (
    <section aria-labelledby="by-layer">
      <h2 id="by-layer">{t`By layer`}</h2>
      {steps.length === 0 ? (
        <p>{t`None of these runs has been profiled yet.`}</p>
      ) : (
        <>
          <div class="controls">
            <StepSlider steps={steps} />
          </div>
          <div class="charts">
            <LayerChart of="stream" curves={curves.stream} />
            <LayerChart of="gradient" curves={curves.gradient} />
          </div>
          <LayerHint last={t`the right end`}>
            {t`Each run shows its last profile at or before this step.`}
          </LayerHint>
        </>
      )}
    </section>
  );
}

/** A slider over the profiled steps. At its end it follows new steps. */
function StepSlider({ steps }: { steps: readonly number[] }) {
  const { profiled } = state;
  const last = steps.length - 1;
  const item = {
    get value() {
      return Math.max(
        0,
        steps.findLastIndex((step) => step <= profiled.value),
      );
    },
    set value(i: number) {
      profiled.value = i === last ? LAST_STEP : steps[i];
    },
    problem: profiled.problem,
    field: { min: 0, max: last, step: 1 },
  };
  return <Slider label={t`Step`} item={item} format={(i) => grouped(steps[i])} />;
}

function profiledSteps(shown: readonly Run[]): number[] {
  const steps = shown.flatMap((run) => [...logOf(run).profile.value.steps.keys()]);
  return [...new Set(steps)].sort((a, b) => a - b);
}

function curvesAt(shown: readonly Run[], step: number) {
  const found = shown.flatMap((run) => {
    const places = placesAt(logOf(run).profile.value, step);
    return places ? { looks: looksOf(run), places } : [];
  });
  const length = Math.max(0, ...found.map(({ places }) => places.stream.length));
  const curves = (of: Signal) =>
    found.map(({ looks, places }) => ({
      ...looks,
      values: Array.from({ length }, (_, layer) => positive(places[of][layer])),
    }));
  return { stream: curves('stream'), gradient: curves('gradient') };
}
