// What a reader has answered in chapter 8.

import { choice } from '../../state/fields';
import { defineState } from '../../state/store';
import { LETTERS, type Question, questions } from './questions';

type Given = 'none' | (typeof LETTERS)[number];

function answer(id: Question['id']) {
  const { answers } = questions.find((question) => question.id === id)!;
  return choice<Given>(['none', ...LETTERS.slice(0, answers.length)], 'none');
}

export const state = defineState('qz', {
  q1: answer('q1'),
  q2: answer('q2'),
  q3: answer('q3'),
  q4: answer('q4'),
  q5: answer('q5'),
  q6: answer('q6'),
});
