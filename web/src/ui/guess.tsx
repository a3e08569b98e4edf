// A guess before the answer: the reader first predicts the result, then sees it.

import type { ReadonlySignal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { t } from '../language/text';
import type { ChoiceField, Guess } from '../state/fields';
import { Choice } from './controls';

/** An answer to a question with three answers, named by letters. */
export type Answer = Exclude<Guess, 'none'>;

interface GuessProps<A extends string> {
  question: string;
  answers: Record<A, string>;
  right: A;
  item: {
    value: A | 'none';
    readonly problem: ReadonlySignal<string>;
    readonly field: ChoiceField<A | 'none'>;
  };
  /** Shows the event in question. */
  onAnswer?(): void;
  reply: ComponentChildren; // after "Right." or "Not so."
  children?: ComponentChildren; // below the reply
}

export function GuessCard<A extends string>(props: GuessProps<A>) {
  const { question, answers, right, item, onAnswer, reply, children } = props;
  const { field, problem, value } = item;
  const asked = {
    field,
    problem,
    get value() {
      return item.value;
    },
    set value(answer) {
      item.value = answer;
      onAnswer?.();
    },
  };
  return (
    <div class="card guess">
      <Choice
        label={question}
        item={asked}
        values={Object.keys(answers) as A[]}
        labels={answers as Partial<Record<A | 'none', string>>}
        right={right}
      />
      <div aria-live="polite">
        {value !== 'none' && (
          <p>
            <strong class={value === right ? 'good' : 'bad'}>
              {value === right ? t`Right.` : t`Not quite.`}
            </strong>{' '}
            {reply}
          </p>
        )}
      </div>
      {value !== 'none' && children}
    </div>
  );
}
