// The quiz: questions, with an immediate reply to each answer.

import { useId } from 'preact/hooks';
import { t } from '../../language/text';
import { ChapterLink, Problem } from '../../ui/controls';
import { Formula } from '../../ui/formula';
import { LETTERS, type Question, questions } from './questions';
import { state } from './state';
import './style.css';

export function Quiz() {
  return (
    <>
      <p>{t`Seven questions. Each answer gets a reply at once, and you can change it.`}</p>
      <ol class="plain-list">
        {questions.map((question, i) => (
          <li key={question.id}>
            <QuestionView question={question} number={i + 1} />
          </li>
        ))}
      </ol>
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
