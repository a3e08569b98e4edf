// A question before a result: the reader says what will happen, then sees it.

import type { ComponentChildren } from 'preact';
import type { ChoiceField } from '../state/fields';
import type { Item } from '../state/store';
import { Choice } from './controls';

interface GuessProps<A extends string> {
  question: string;
  answers: Record<A, string>;
  right: A;
  item: Item<A | 'none', ChoiceField<A | 'none'>>;
  onAnswer?(): void; // shows what the question is about
  children: ComponentChildren; // why, for once there is an answer
}

export function Guess<A extends string>(props: GuessProps<A>) {
  const { question, answers, right, item, onAnswer, children } = props;
  const isRight = item.value === right;
  const asked = {
    field: item.field,
    problem: item.problem,
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
        {item.value !== 'none' && (
          <p>
            <strong class={isRight ? 'good' : 'bad'}>{isRight ? 'Right.' : 'Not so.'}</strong>{' '}
            {children}
          </p>
        )}
      </div>
    </div>
  );
}
