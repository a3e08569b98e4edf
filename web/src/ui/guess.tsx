// A guess before the answer: the reader first says what will happen, then sees it.

import type { ReadonlySignal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { t } from '../language/text';
import type { ChoiceField, Guess } from '../state/fields';
import { Choice } from './controls';

export type Answer = Exclude<Guess, 'none'>;

interface GuessProps {
  question: string;
  answers: Record<Answer, string>;
  right: Answer;
  item: {
    value: Guess;
    readonly problem: ReadonlySignal<string>;
    readonly field: ChoiceField<Guess>;
  };
  /** Makes happen what was asked about. */
  onAnswer(): void;
  reply: string; // after "Right." or "Not so."
  children?: ComponentChildren; // below the reply
}

export function GuessCard({
  question,
  answers,
  right,
  item,
  onAnswer,
  reply,
  children,
}: GuessProps) {
  const { field, problem, value } = item;
  const asked = {
    field,
    problem,
    get value() {
      return item.value;
    },
    set value(answer) {
      item.value = answer;
      onAnswer();
    },
  };
  return (
    <div class="card guess">
      <Choice label={question} item={asked} values={['a', 'b', 'c']} labels={answers} />
      <div aria-live="polite">
        {value !== 'none' && (
          <p>
            <strong class={value === right ? 'good' : 'bad'}>
              {value === right ? t`Right.` : t`Not so.`}
            </strong>{' '}
            {reply}
          </p>
        )}
      </div>
      {value !== 'none' && children}
    </div>
  );
}
