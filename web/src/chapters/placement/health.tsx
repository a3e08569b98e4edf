// The gradient that arrives at layer 0 while a stack trains.

import { t } from '../../language/text';
import { LineChart } from '../../ui/line-chart';
import { roundNumber } from '../../ui/numbers';
import type { Health } from './training';

interface HealthChartProps {
  runs: readonly { name: string; colour: string; health: readonly Health[] }[];
}

export function HealthChart({ runs }: HealthChartProps) {
  const measured = runs.map(({ health }) => health.length);
  const longest = runs[measured.indexOf(Math.max(...measured))].health;
  return (
    <LineChart
      name={t`Layer 0’s gradient over the last layer’s`}
      xLabel={t`step`}
      yLabel={t`1: equally large`}
      x={longest.map(({ step }) => step)}
      curves={runs.map(({ health, ...run }) => ({
        ...run,
        values: health.map(({ gradient }) => (Number.isFinite(gradient) ? gradient : null)),
      }))}
      logarithmic
      height={320}
    />
  );
}

/** A sentence about the smallest gradient, without and with warm-up. */
export function healthWords(without: readonly Health[], warmed: readonly Health[]): string {
  const [cold, warm] = [without, warmed].map(least);
  const [a, b, cosine] = [cold.gradient, warm.gradient, cold.tokenCosine].map((v) =>
    roundNumber(v, 2),
  );
  return t`Without warm-up layer 0’s gradient sinks to ${a} of the last layer’s, at step
    ${cold.step}, where the mean cosine of two tokens is ${cosine}. With warm-up the lowest value is
    ${b}.`;
}

function least(health: readonly Health[]): Health {
  return health.reduce((low, one) => (one.gradient < low.gradient ? one : low));
}
