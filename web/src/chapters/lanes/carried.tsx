// Whether lanes stay different on their way up, and whether the product of all A amplifies.

import { kernels } from '../../kernels/current';
import type { Carried } from '../../kernels/lanes';
import { Button, Checkbox, Choice, Slider, TextField } from '../../ui/controls';
import { LineChart } from '../../ui/line-chart';
import { roundNumber } from '../../ui/numbers';
import { stackOf } from './numbers';
import { LABELS, type RowName } from './rows';
import { state } from './state';

const COMPARED: readonly RowName[] = ['hyper', 'mhc', 'identity-hc'];
const LOOKS = [
  { colour: 'var(--series-2)' },
  { colour: 'var(--series-1)' },
  { colour: 'var(--series-3)', dash: '10 4' },
  { colour: 'var(--series-4)', dash: '3 4' },
];

interface CarriedRow extends Carried {
  row: RowName;
  name: string;
  colour: string;
  dash?: string;
}

export function CarriedLanes() {
  return (
    <>
      <p>
        In mHC every A is doubly stochastic. Such a matrix keeps the mean of the lanes and amplifies
        nothing, and the same is true of a product of many. Suppose that training has moved the
        numbers: at every sublayer each lane still keeps most of itself, and takes a little of the
        others.
      </p>
      <Guess />
      {state.guess.value !== 'none' && <Answer />}
    </>
  );
}

function Guess() {
  const isOpen = state.guess.value === 'none';
  return (
    <div class="lanes-guess card">
      <Choice
        label={`How much of a difference between lanes is left after ${2 * state.depth.value} sublayers?`}
        item={state.guess}
        values={['most', 'half', 'nothing']}
        labels={{ most: 'nearly all of it', half: 'about half', nothing: 'next to nothing' }}
        right={truth().share}
      />
      {isOpen && <Button onClick={() => (state.guess.value = 'shown')}>Show me</Button>}
    </div>
  );
}

function Answer() {
  const chosen = state.row.value;
  const rows = COMPARED.includes(chosen) ? COMPARED : [...COMPARED, chosen];
  const choice = { layers: state.depth.value, moved: state.moved.value };
  const carried = rows
    .map((row, i): CarriedRow => {
      const carried = kernels.lanes.carried(stackOf(row, choice));
      return { row, name: LABELS[row], ...LOOKS[i], ...carried };
    })
    .filter(({ gain }) => gain.length > 0);
  const sublayers = Array.from({ length: 2 * choice.layers }, (_, l) => l + 1);
  const curves = (of: 'left' | 'gain') => carried.map((c) => ({ ...c, values: c[of] }));
  return (
    <>
      <Reply />
      <div class="controls">
        <Slider label="Layers" item={state.depth} />
        <Checkbox label="Learned numbers have moved" item={state.moved} />
        <TextField label="Seed" item={state.seed} />
        <MoveAgain />
      </div>
      <div class="charts">
        <LineChart
          name="What is left of a difference between lanes"
          xLabel="sublayers"
          yLabel="1: all, 0: the lanes are one"
          x={sublayers}
          curves={curves('left')}
          atLeast={[0, 1]}
        />
        <LineChart
          name="Gain of the product of all A"
          xLabel="sublayers"
          yLabel="largest sum of a row or column"
          x={sublayers}
          curves={curves('gain')}
          logarithmic
        />
      </div>
      <ul class="plain-list">
        {carried.map((c) => (
          <li key={c.row} class="remark" style={{ borderColor: c.colour }} data-carried={c.row}>
            <strong>{c.name}.</strong> {verdict(c)}
          </li>
        ))}
      </ul>
      <p>
        A stream, or a gradient, can grow by this factor. The paper of mHC measured about 3000 for
        hyper-connections in a trained model of 27 billion parameters, and 1.6 for mHC.
      </p>
      {!carried.some(({ row }) => row === chosen) && (
        <p>
          The stream of {LABELS[chosen]} is not carried by matrices alone, so it has no curve here.
        </p>
      )}
    </>
  );
}

export function MoveAgain() {
  return (
    <Button onClick={() => (state.seed.value = (state.seed.value + 1) % 10_000)}>
      Move them another way
    </Button>
  );
}

/** Of moved numbers, as the question is about them. */
function truth() {
  const stack = stackOf('mhc', { layers: state.depth.value, moved: true });
  const left = kernels.lanes.carried(stack).left.at(-1)!;
  const share = left > 0.75 ? 'most' : left > 0.25 ? 'half' : 'nothing';
  return { left, share } as const;
}

function Reply() {
  const { left, share } = truth();
  const guess = state.guess.value;
  const isGuess = guess !== 'shown';
  return (
    <p role="status" data-reply={guess === share}>
      {isGuess && (
        <strong class={guess === share ? 'good' : 'bad'}>
          {guess === share ? 'Right. ' : 'Not so. '}
        </strong>
      )}
      Of the difference{' '}
      {left < 0.01 ? 'less than a hundredth is' : `${roundNumber(100 * left, 2)} % is`} left.{' '}
      {share === 'nothing' &&
        'Each A mixes a little, and no A can undo what another one has mixed: the lanes have become one.'}
    </p>
  );
}

/** Both curves at their end. */
function verdict({ left, gain }: Carried): string {
  const [difference, product] = [left.at(-1), gain.at(-1)];
  if (product == null) return 'The numbers overflow.';
  const size =
    product < 1.01
      ? 'The product amplifies nothing'
      : `The product amplifies up to ${roundNumber(product, 3)}-fold`;
  if (difference == null) return `${size}. With one lane there is no difference.`;
  if (difference < 0.05) return `${size}, and the lanes have melted into one.`;
  if (product > 1.5)
    return `${size}, and so a difference need not shrink: it is ${roundNumber(difference, 3)} times as large.`;
  return `${size}, and ${roundNumber(100 * difference, 3)} % of a difference is left.`;
}
