// Two moves of x: the reader predicts x̂, then sees it.

import { type Signal, signal } from '@preact/signals';
import { normalizeToken } from '../../kernels/token';
import { t } from '../../language/text';
import { Button } from '../../ui/controls';
import { glide } from '../../ui/glide';
import { type Answer, GuessCard } from '../../ui/guess';
import type { TokenNorm } from '../../ui/names';
import { roundNumber } from '../../ui/numbers';
import { largest, largestDifference, withoutNoise } from '../../ui/vectors';
import { LIMIT, state } from './state';

interface Move {
  name: string;
  change(v: number): number;
  words: string; // a description of x's move
}

/** A move that the reader has made, and the x before it. */
interface Made {
  x: readonly number[];
  move: Move;
}

interface Question {
  item: typeof state.shifted;
  question: string;
  answers: Record<Answer, string>;
  right: Answer;
  /** The move in question and the reverse move. Both are available after an answer. */
  moves: readonly [asked: Move, back: Move];
  made: Signal<Made | undefined>;
  reply(layer: string, rms: string): string;
}

const QUESTIONS: Question[] = [
  {
    item: state.shifted,
    question: t`x moves along 1: each feature grows by 1. What does LayerNorm’s x̂ do?`,
    answers: { a: t`It moves along 1 too`, b: t`It turns`, c: t`Nothing` },
    right: 'c',
    moves: [
      {
        name: t`Add 1 to each`,
        change: (v) => v + 1,
        words: t`x slides along a line parallel to 1, and all of that line is projected onto one point.`,
      },
      {
        name: t`Take 1 from each`,
        change: (v) => v - 1,
        words: t`x slides back along a line parallel to 1, and all of that line is projected onto one point.`,
      },
    ],
    made: signal(undefined),
    reply: (layer, rms) =>
      t`LayerNorm’s x̂ changes by at most ${layer}. RMSNorm does not project: its x̂ changes by up
        to ${rms}.`,
  },
  {
    item: state.doubled,
    question: t`x is doubled. What does x̂ do?`,
    answers: {
      a: t`It is doubled in both norms`,
      b: t`Nothing, in both norms`,
      c: t`Nothing in LayerNorm; in RMSNorm it is doubled`,
    },
    right: 'b',
    moves: [
      {
        name: t`Times 2`,
        change: (v) => 2 * v,
        words: t`x moves away from 0 on its ray, and both norms divide by a σ that has doubled too.`,
      },
      {
        name: t`Divided by 2`,
        change: (v) => v / 2,
        words: t`x moves towards 0 on its ray, and both norms divide by a σ that has halved too.`,
      },
    ],
    made: signal(undefined),
    reply: (layer, rms) =>
      t`x̂ changes by at most ${layer} in LayerNorm and ${rms} in RMSNorm, because of ε.`,
  },
];

export function Guesses() {
  return QUESTIONS.map((one) => <QuestionView key={one.question} {...one} />);
}

function QuestionView({ item, question, answers, right, moves, made, reply }: Question) {
  const x = state.x.value;
  const isInside = (v: readonly number[]) => largest(v) <= LIMIT;
  const fits = ({ change }: Move) => isInside(x.map(change));
  const make = (move: Move, from = x) => {
    made.value = { x: from, move };
    state.x.value = from;
    glide(state.x, from.map(move.change));
  };
  const last = made.value ?? { x, move: moves[0] }; // a link may already have the answer
  const changed = (kind: TokenNorm) => roundNumber(changeOf(kind, last), 2);
  return (
    <GuessCard
      {...{ item, question, answers, right }}
      onAnswer={() => {
        const [asked, back] = moves;
        // The move must end within the figure. Half of x has room for either move.
        const starts = [x, x.map(back.change), x.map((v) => v / 2)];
        make(
          asked,
          starts.find((from) => isInside(from) && isInside(from.map(asked.change))),
        );
      }}
      reply={`${last.move.words} ${reply(changed('layer'), changed('rms'))}`}
    >
      <div class="buttons">
        {moves.map((one) => (
          <Button key={one.name} onClick={() => make(one)} disabled={!fits(one)}>
            {one.name}
          </Button>
        ))}
      </div>
      {moves.map(
        (one) =>
          !fits(one) && (
            <p key={one.name} class="hint">
              {t`“${one.name}” is unavailable: it would move x out of this figure, where features go
              from −3 to 3.`}
            </p>
          ),
      )}
    </GuessCard>
  );
}

/** The largest change of any feature of x̂, without rounding errors. */
function changeOf(kind: TokenNorm, { x, move }: Made): number {
  const [before, after] = [x, x.map(move.change)].map(
    (v) => normalizeToken({ kind }, v).normalized,
  );
  return withoutNoise(largestDifference(before, after), 1);
}
