// Two moves of x: the reader first says what x̂ will do, then sees it.

import { normalizeToken } from '../../kernels/token';
import { Button, Choice } from '../../ui/controls';
import { glide } from '../../ui/glide';
import type { TokenNorm } from '../../ui/names';
import { roundNumber } from '../../ui/numbers';
import { largest, largestDifference } from '../../ui/vectors';
import { LIMIT, state } from './state';

type Change = (v: number) => number;

interface Guess {
  item: typeof state.shifted;
  question: string;
  answers: Record<'a' | 'b' | 'c', string>;
  right: 'a' | 'b' | 'c';
  /** x is moved by the first of these that stays in range; the reader can then do both. */
  moves: { name: string; change: Change }[];
  reply(layer: string, rms: string): string;
}

const GUESSES: Guess[] = [
  {
    item: state.shifted,
    question: 'x moves along 1: each feature grows by 1. What does LayerNorm’s x̂ do?',
    answers: { a: 'It moves along 1 too', b: 'It turns', c: 'Nothing' },
    right: 'c',
    moves: [
      { name: 'Add 1 to each', change: (v) => v + 1 },
      { name: 'Take 1 from each', change: (v) => v - 1 },
    ],
    reply: (layer, rms) =>
      'x slides along a line parallel to 1, and all of that line is projected onto one point. ' +
      `LayerNorm’s x̂ changes by at most ${layer}. RMSNorm does not project: its x̂ changes by up to ${rms}.`,
  },
  {
    item: state.doubled,
    question: 'x is doubled. What does x̂ do?',
    answers: {
      a: 'It is doubled in both norms',
      b: 'Nothing, in both norms',
      c: 'Nothing in LayerNorm; in RMSNorm it is doubled',
    },
    right: 'b',
    moves: [
      { name: 'Times 2', change: (v) => 2 * v },
      { name: 'Divided by 2', change: (v) => v / 2 },
    ],
    reply: (layer, rms) =>
      'x moves away from 0 on its ray, and both norms divide by a σ that has doubled too. x̂ changes ' +
      `by at most ${layer} in LayerNorm and ${rms} in RMSNorm: that is ε.`,
  },
];

export function Guesses() {
  return GUESSES.map((guess) => <GuessView key={guess.question} {...guess} />);
}

function GuessView({ item, question, answers, right, moves, reply }: Guess) {
  const x = state.x.value;
  const fits = ({ change }: { change: Change }) => largest(x.map(change)) <= LIMIT;
  const move = ({ change }: { change: Change }) => glide(state.x, x.map(change));
  const answered = item.value !== 'none';
  const choice = {
    field: item.field,
    problem: item.problem,
    get value() {
      return item.value;
    },
    set value(answer) {
      item.value = answer;
      const first = moves.find(fits);
      if (first) move(first);
    },
  };
  const changed = (kind: TokenNorm) => roundNumber(changeOf(kind, x, moves[0].change), 2);
  return (
    <div class="card geo-guess">
      <Choice label={question} item={choice} values={['a', 'b', 'c']} labels={answers} />
      <div aria-live="polite" class="geo-reply">
        {answered && (
          <p>
            <strong class={item.value === right ? 'good' : 'bad'}>
              {item.value === right ? 'Right.' : 'Not so.'}
            </strong>{' '}
            {reply(changed('layer'), changed('rms'))}
          </p>
        )}
      </div>
      {answered && (
        <div class="buttons">
          {moves.map((one) => (
            <Button key={one.name} onClick={() => move(one)} disabled={!fits(one)}>
              {one.name}
            </Button>
          ))}
        </div>
      )}
    </div>
  );
}

/** The largest change of any feature of x̂. */
function changeOf(kind: TokenNorm, x: readonly number[], change: Change): number {
  const [before, after] = [x, x.map(change)].map((v) => normalizeToken({ kind }, v).normalized);
  return largestDifference(before, after);
}
