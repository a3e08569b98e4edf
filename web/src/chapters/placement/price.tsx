// Pre-norm's price, drawn: later layers turn the stream less.

import { signal } from '@preact/signals';
import { newest } from '../../kernels/remote';
import { measurer } from '../../kernels/sessions';
import type { TurnsOptions } from '../../kernels/turns';
import { Failure } from '../../ui/controls';
import { LineChart } from '../../ui/line-chart';
import { PLACEMENT_NAMES } from '../../ui/names';
import { useNear } from '../../ui/near';
import { roundNumber } from '../../ui/numbers';
import { Wait } from '../../ui/room';
import { chosenStack } from './curves';

const LOOKS = {
  pre: { colour: 'var(--series-1)' },
  post: { colour: 'var(--series-3)', dash: '10 4' },
};
const PLACEMENTS = ['pre', 'post'] as const;

const measured = signal<Record<'pre' | 'post', number[]> | undefined>(undefined);
const problem = signal('');

const request = newest(async (options: Omit<TurnsOptions, 'placement'>) => {
  try {
    const [pre, post] = await Promise.all(
      PLACEMENTS.map((placement) => measurer().call('turns', { ...options, placement })),
    );
    measured.value = { pre, post };
    problem.value = '';
  } catch (error) {
    problem.value = (error as Error).message;
  }
});

export function Price() {
  const { layers, width, heads, context, initialization, norm, seed } = chosenStack().options;
  const wanted = { layers, width, heads, tokens: context, initialization, norm, seed };
  const element = useNear<HTMLDivElement>(wanted, () => request(wanted));
  return (
    <div ref={element}>
      <Failure text={problem.value} />
      {measured.value ? (
        <Turns {...measured.value} />
      ) : (
        <Wait height={[400, 375, 375]}>The turns are being measured.</Wait>
      )}
      <p class="hint">Measured on stacks of the same size and recipe, which read random numbers.</p>
    </div>
  );
}

function Turns(angles: Record<'pre' | 'post', number[]>) {
  const ends = (all: number[]) =>
    all.length === 1
      ? degrees(all[0])
      : `${degrees(all[0])} in the first layer, ${degrees(all.at(-1)!)} in the last`;
  return (
    <>
      <div class="charts">
        <LineChart
          name="How far each layer turns the stream"
          xLabel="layer"
          yLabel="degrees"
          curves={PLACEMENTS.map((name) => ({
            name: PLACEMENT_NAMES[name],
            ...LOOKS[name],
            values: angles[name],
          }))}
          atLeast={FROM_ZERO}
        />
      </div>
      <p data-verdict="turns">
        Pre-norm turns the stream by {ends(angles.pre)}; post-norm by {ends(angles.post)}.
      </p>
    </>
  );
}

const FROM_ZERO = [0, 0] as const;

const degrees = (angle: number) => `${roundNumber(angle, 3)}°`;
