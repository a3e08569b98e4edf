// The quiz: questions, with an immediate reply to each answer.

import { signal } from '@preact/signals';
import { useId } from 'preact/hooks';
import { t, Trans } from '../../language/text';
import { Button, ChapterLink, Problem } from '../../ui/controls';
import { Formula } from '../../ui/formula';
import { LETTERS, type Question, questions } from './questions';
import { state } from './state';
import './style.css';

/** The question in sight, from 0. On paper and in a presentation, all are. */
const current = signal(0);

/** Begins with the first question again. */
export function restart(): void {
  current.value = 0;
}

export function Quiz() {
  return (
    <>
      <p>
        <Trans>Seven questions. Each answer gets a reply at once, and you can change it.</Trans>
      </p>
      <ol class="plain-list">
        {questions.map((question, i) => (
          <li key={question.id} class={i === current.value ? '' : 'quiz-other'}>
            <QuestionView question={question} number={i + 1} />
          </li>
        ))}
      </ol>
      <Turning />
      <Score />
      <p class="handout-answer">{t`Answers: ${rightLetters()}.`}</p>
    </>
  );
}

/** The right answers as "1 b, 2 d, …". */
function rightLetters(): string {
  return questions.map(({ right }, i) => `${i + 1} ${LETTERS[right]}`).join(', ');
}

/** The index of the given answer; −1 if there is none. */
function givenTo({ id }: Question): number {
  const given = state[id].value;
  return given === 'none' ? -1 : LETTERS.indexOf(given);
}

function QuestionView({ question, number }: { question: Question; number: number }) {
  const name = useId();
  const given = givenTo(question);
  const isRight = given === question.right;
  return (
    <fieldset class="quiz-question" data-question={question.id} data-step>
      <legend>
        {number}. {question.text}
        {question.tex && <Formula tex={question.tex} block />}
      </legend>
      {question.answers.map(({ text, tex, spoken, end }, i) => (
        <label
          key={i}
          class={`card quiz-answer ${i === given ? (isRight ? 'right' : 'wrong') : ''}`}
          data-letter={LETTERS[i]}
        >
          <input
            type="radio"
            name={name}
            value={LETTERS[i]}
            checked={i === given}
            aria-label={spoken && [text, spoken, end].filter(Boolean).join(' ')}
            onChange={() => (state[question.id].value = LETTERS[i])}
          />
          <span>
            {text} {tex && <Formula tex={tex} />} {end}
          </span>
        </label>
      ))}
      <div class="quiz-reply" aria-live="polite">
        {given >= 0 && (
          <p>
            <strong class={isRight ? 'good' : 'bad'}>{isRight ? t`Right.` : t`Not quite.`}</strong>{' '}
            {question.answers[given].reply}{' '}
            <ChapterLink to={question.chapter}>{question.link}</ChapterLink>.
          </p>
        )}
        <Problem
          text={
            state[question.id].problem.value &&
            t`The answer in the link is not
          valid.`
          }
        />
      </div>
    </fieldset>
  );
}

function Turning() {
  const last = questions.length - 1;
  return (
    <div class="buttons quiz-turning">
      <Button disabled={current.value === 0} onClick={() => current.value--}>
        {t`Back`}
      </Button>
      <Button kind="primary" disabled={current.value === last} onClick={() => current.value++}>
        {t`Next`}
      </Button>
      <span class="faint">{t`Question ${current.value + 1} of ${questions.length}`}</span>
    </div>
  );
}

function Score() {
  const given = questions.map(givenTo);
  const answered = given.filter((place) => place >= 0).length;
  const right = questions.filter(({ right }, i) => given[i] === right).length;
  return (
    <p role="status" data-stat="score">
      {answered === 0
        ? t`No question answered yet.`
        : t`${right} of ${questions.length} right, ${answered} answered.`}
    </p>
  );
}
