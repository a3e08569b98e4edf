// The price of pre-norm as curves: as the stream grows, later layers turn it less.

import type { Placement } from '../../kernels/kernels';
import { t } from '../../language/text';
import { Choice, Slider } from '../../ui/controls';
import { LineChart } from '../../ui/line-chart';
import { FIRST_WEIGHTS } from '../../ui/names';
import { useNear } from '../../ui/near';
import { roundNumber } from '../../ui/numbers';
import { Wait } from '../../ui/room';
import { jobOf, measureProblem, request, type Shown, shownStacks } from './measured';
import { PlacementList } from './placement-list';
import { state } from './state';

export function Price({ table }: { table: Placement[] }) {
  const job = jobOf(table);
  const element = useNear<HTMLDivElement>(job, () => request(job));
  const stacks = measureProblem.value === '' ? shownStacks() : undefined;
  return (
    <div ref={element}>
      <div class="controls">
        <PlacementList table={table} />
        <Slider label={t`Layers`} item={state.layers} />
        <Choice label={t`Initial weights`} item={state.first} labels={FIRST_WEIGHTS} />
      </div>
      {stacks && <Turns stacks={stacks} />}
      {measureProblem.value === '' && !stacks && (
        <Wait height={[400, 375, 375]}>{t`The angles are being measured.`}</Wait>
      )}
    </div>
  );
}

function Turns({ stacks }: { stacks: readonly Shown[] }) {
  return (
    <>
      <div class="charts">
        <LineChart
          name={t`How far each layer turns the stream`}
          xLabel={t`layer`}
          yLabel={t`degrees`}
          curves={stacks.map(({ measurement, ...shown }) => ({
            ...shown,
            values: measurement.turn.map((v) => (Number.isFinite(v) ? v : null)),
          }))}
          atLeast={FROM_ZERO}
        />
      </div>
      <p data-verdict="turns">{priceWords(stacks)}</p>
    </>
  );
}

const FROM_ZERO = [0, 0] as const;

/** Sentences about the curves of pre-norm and post-norm. */
export function priceWords(stacks: readonly Pick<Shown, 'placement' | 'measurement'>[]): string {
  const of = (name: string) => stacks.find(({ placement }) => placement === name)!.measurement.turn;
  const [pre, post] = [of('pre'), of('post')];
  if (pre.length === 1) return t`A single layer has no later layer to compare with.`;
  const [a, b, c, d] = [pre[0], pre.at(-1)!, post[0], post.at(-1)!].map(degrees);
  const shown = t`Pre-norm turns the stream by ${a} in the first layer and by ${b} in the last. Post-norm turns it
    by ${c} in the first layer and by ${d} in the last.`;
  return `${shown} ${conclusion(left(pre), left(post))}`;
}

const degrees = (angle: number) => `${roundNumber(angle, 3)}°`;

/** The last layer's turn over the first layer's. */
const left = (turn: readonly number[]) => turn.at(-1)! / turn[0];

function conclusion(pre: number, post: number): string {
  if (pre > 0.8 * post) {
    return t`So pre-norm’s later layers lose no more effect here than post-norm’s: with these
      initial weights branches are small relative to the stream, or the stack has few layers.`;
  }
  const [a, b] = [pre, post].map((ratio) => roundNumber(ratio, 2));
  return t`This is the price: pre-norm’s last layer turns the stream ${a} times as far as its first, post-norm’s
    ${b} times.`;
}
