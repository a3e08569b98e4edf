// Shows whether lanes stay different through the stack, and whether the product of all A amplifies.

import { kernels } from '../../kernels/current';
import type { Carried } from '../../kernels/lanes';
import { t, Trans } from '../../language/text';
import { Button, Checkbox, Slider, TextField } from '../../ui/controls';
import { GuessCard } from '../../ui/guess';
import { LineChart } from '../../ui/line-chart';
import { percent, roundNumber } from '../../ui/numbers';
import { evenStack, stackOf, taken } from './numbers';
import { RowList } from './row-list';
import { LABELS, type RowName } from './rows';
import { state } from './state';

const COMPARED: readonly RowName[] = ['hyper', 'mhc', 'identity-hc'];
const LOOKS = [
  { colour: 'var(--series-2)' },
  { colour: 'var(--series-1)' },
  { colour: 'var(--series-3)', dash: '10 4' },
  { colour: 'var(--series-4)', dash: '3 4' },
];

interface CarriedCurves extends Carried {
  name: string;
  colour: string;
  dash?: string;
}

interface CarriedRow extends CarriedCurves {
  row: RowName;
  taken: number;
}

/** If at most this part of a difference is left, the lanes count as one. */
const ONE = 0.01;

export function CarriedLanes() {
  const moved = stackOf('mhc', { layers: state.depth.value, moved: true });
  return (
    <>
      <p>
        {t`In mHC every A is doubly stochastic. Such a matrix keeps the mean of the lanes and
          amplifies nothing. The same is true of a product of many such matrices. Suppose that
          training has changed the numbers of mHC. At each sublayer a lane now takes
          ${percent(taken(kernels.lanes.numbers(moved)), 2)} from the others, on average over the
          numbers drawn here.`}
      </p>
      <DifferenceGuess left={kernels.lanes.carried(moved).left} />
      {state.guess.value !== 'none' && <Answer />}
    </>
  );
}

/** A question about a stack with moved numbers. */
function DifferenceGuess({ left }: { left: Carried['left'] }) {
  const end = left.at(-1)!;
  return (
    <GuessCard
      question={t`How much of a difference between lanes is left after ${left.length} sublayers?`}
      answers={{ most: t`nearly all of it`, half: t`about half`, nothing: t`next to nothing` }}
      right={end > 0.75 ? 'most' : end > 0.25 ? 'half' : 'nothing'}
      item={state.guess}
      reply={`${leftWords(left)} ${t`No A can undo the mixing of another A.`}`}
    />
  );
}

/** A sentence about the difference at the end, and the sublayer from which the lanes are one. */
function leftWords(left: Carried['left']): string {
  const one = left.findIndex((v) => v !== null && v <= ONE);
  return one === -1
    ? t`After ${left.length} sublayers ${percent(left.at(-1) ?? NaN, 2)} of a difference is left.`
    : t`From sublayer ${one + 1} on less than a hundredth of a difference is left: the lanes have become equal.`;
}

function Answer() {
  const chosen = state.row.value;
  const rows = rowsWith(chosen);
  const even = kernels.lanes.carried(evenStack(state.depth.value, state.even.value));
  return (
    <>
      <div class="controls">
        <RowList />
        <Slider label={t`Layers`} item={state.depth} />
        <Slider label={t`Even mixing`} item={state.even} format={(share) => percent(share)} />
        <Checkbox label={t`Learned numbers have changed`} item={state.moved} />
        <TextField label={t`Seed`} item={state.seed} />
        <MoveAgain />
      </div>
      <Charts
        curves={[...rows, { ...even, name: t`even mixing`, colour: 'var(--theory)', dash: '2 3' }]}
      />
      <ul class="plain-list">
        {rows.map((row) => (
          <li
            key={row.row}
            class="remark"
            style={{ borderColor: row.colour }}
            data-carried={row.row}
          >
            <strong>{row.name}.</strong> {verdict(row)}
          </li>
        ))}
        <li class="remark" style={{ borderColor: 'var(--theory)' }} data-carried="even">
          <strong>{t`Even mixing.`}</strong>{' '}
          {t`Each lane takes ${percent(state.even.value)} from the others at each sublayer, in equal parts.`}{' '}
          {leftWords(even.left)}
        </li>
      </ul>
      <p>
        <Trans>
          So how soon lanes become equal depends on how much each A mixes. mHC starts with hardly
          any mixing (undo the change to see it). A report on Identity-HC of 2026 found both in
          trained models: each single A is close to the identity, but their products are close to
          even mixing.
        </Trans>
      </p>
      <p>
        <Trans>
          The gain says how much a stream or a gradient can grow. The mHC paper measured a gain of
          about 3000 for hyper-connections in its test model of 27 billion parameters, and 1.6 for
          mHC. mHC stops Sinkhorn’s iteration after 20 rounds, so A is not quite doubly stochastic.
        </Trans>
      </p>
      {!rows.some(({ row }) => row === chosen) && (
        <p>
          {t`The stream of ${LABELS[chosen]} is not carried by matrices alone, so it has no curve here.`}
        </p>
      )}
    </>
  );
}

/** The compared rows and the chosen one, without rows that matrices alone do not carry. */
function rowsWith(chosen: RowName): CarriedRow[] {
  const names = COMPARED.includes(chosen) ? COMPARED : [...COMPARED, chosen];
  const choice = { layers: state.depth.value, moved: state.moved.value };
  return names
    .map((row, i) => {
      const stack = stackOf(row, choice);
      const name = LABELS[row];
      const carried = kernels.lanes.carried(stack);
      return { row, name, ...LOOKS[i], ...carried, taken: taken(kernels.lanes.numbers(stack)) };
    })
    .filter(({ gain }) => gain.length > 0);
}

function Charts({ curves }: { curves: readonly CarriedCurves[] }) {
  const sublayers = curves[0].gain.map((_, l) => l + 1);
  const of = (what: 'left' | 'gain') => curves.map((curve) => ({ ...curve, values: curve[what] }));
  return (
    <div class="charts">
      <LineChart
        name={t`Remaining difference between lanes`}
        xLabel={t`sublayers`}
        yLabel={t`1: all, 0: the lanes are equal`}
        x={sublayers}
        curves={of('left')}
        atLeast={[0, 1]}
      />
      <LineChart
        name={t`Gain of the product of all A`}
        xLabel={t`sublayers`}
        yLabel={t`largest sum of a row or column`}
        x={sublayers}
        curves={of('gain')}
        logarithmic
      />
    </div>
  );
}

export function MoveAgain() {
  return (
    <Button onClick={() => (state.seed.value = (state.seed.value + 1) % 10_000)}>
      {t`Draw other changes`}
    </Button>
  );
}

/** A sentence about the last value of both curves. */
function verdict({ left, gain, taken }: CarriedRow): string {
  const [difference, product] = [left.at(-1), gain.at(-1)];
  if (product == null) return t`The numbers overflow.`;
  const size =
    product < 1.01
      ? t`The product amplifies nothing.`
      : t`The product amplifies up to ${roundNumber(product, 3)}-fold.`;
  if (difference == null) return `${size} ${t`With one lane there is no difference.`}`;
  const mixing = t`Each lane takes ${percent(taken, 2)} from the others at each sublayer.`;
  const end =
    difference > 1
      ? t`A difference need not shrink: it is ${roundNumber(difference, 3)} times as large in the end.`
      : leftWords(left);
  return `${mixing} ${size} ${end}`;
}
