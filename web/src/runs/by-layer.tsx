// The stream and its gradient by layer, at a step at which the runs were profiled.

import { useMemo } from 'preact/hooks';
import { Slider } from '../ui/controls';
import { LineChart } from '../ui/line-chart';
import { changes, logOf, type Run, shownRuns } from './feed';
import { looksOf } from './looks';
import { positive } from './metrics';
import { type Places, placesAt } from './profile';
import { LAST_STEP, state } from './state';

export function ByLayer() {
  const shown = shownRuns.value;
  const step = state.profiled.value;
  const looks = JSON.stringify(shown.map(looksOf));
  const steps = useMemo(() => profiledSteps(shown), [looks, changes.value]);
  const charts = useMemo(() => chartsOf(shown, step), [looks, step, changes.value]);
  return (
    <section aria-labelledby="by-layer">
      <h2 id="by-layer">By layer</h2>
      {steps.length === 0 ? (
        <p>None of these runs has been profiled yet.</p>
      ) : (
        <>
          <div class="controls">
            <StepSlider steps={steps} />
          </div>
          <div class="run-charts">
            <LineChart
              name="Stream RMS, from layer 0 to the last"
              xLabel="layer"
              yLabel="stream’s RMS"
              {...charts.rms}
              logarithmic
            />
            <LineChart
              name="Gradient RMS, from the last layer (right) back to layer 0"
              xLabel="layer"
              yLabel="gradient’s RMS"
              {...charts.gradient}
              logarithmic
            />
          </div>
          <p class="hint">
            At layer l stands what layer l reads; at the right end, what the last layer leaves. Each
            run as it was profiled last at this step or before it.
          </p>
        </>
      )}
    </section>
  );
}

/** Moves from one profiled step to the next; at its end it follows those that come. */
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
  };
  const format = (i: number) => steps[i].toLocaleString('en');
  return <Slider label="Step" item={item} min={0} max={last} step={1} format={format} />;
}

function profiledSteps(shown: readonly Run[]): number[] {
  const steps = shown.flatMap((run) => [...logOf(run).profile.value.steps.keys()]);
  return [...new Set(steps)].sort((a, b) => a - b);
}

function chartsOf(shown: readonly Run[], step: number) {
  const found = shown.flatMap((run) => {
    const places = placesAt(logOf(run).profile.value, step);
    return places ? { looks: looksOf(run), places } : [];
  });
  const most = Math.max(0, ...found.map(({ places }) => places.rms.length));
  const x = Array.from({ length: most }, (_, l) => l);
  const chart = (of: keyof Places) => ({
    x,
    curves: found.map(({ looks, places }) => ({
      ...looks,
      values: x.map((l) => positive(places[of][l])),
    })),
  });
  return { rms: chart('rms'), gradient: chart('gradient') };
}
