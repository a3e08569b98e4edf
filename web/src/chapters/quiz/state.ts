// The state of the quiz: the reader's answers.

import { answer, type ChoiceField } from '../../state/fields';
import { defineState } from '../../state/store';
import { LETTERS, type Question, questions } from './questions';

type Given = 'none' | (typeof LETTERS)[number];

const fields = questions.map(({ id, answers }) => {
  const letters = LETTERS.slice(0, answers.length);
  return [id, answer<Given>(['none', ...letters])];
});

export const state = defineState<Record<Question['id'], ChoiceField<Given>>>(
  'qz',
  Object.fromEntries(fields),
);
