// A question about x̂ before F is multiplied by ten.

import { t } from '../../language/text';
import { GuessCard } from '../../ui/guess';
import { changeByInjection, INJECTED } from './compute';
import { state } from './state';
import { isSame } from './verdict';

const ANSWERS = {
  a: t`It stays the same`,
  b: t`It becomes ten times as large`,
  c: t`It keeps its size, but turns`,
};

export function InjectionGuess() {
  const same = isSame(changeByInjection.value);
  const reply = same
    ? t`The norm’s whole input was scaled, and a norm removes the scale of its input.`
    : t`The norm brings the sum back into range. But only F was scaled, so x̂ turns towards
        LayerNorm(F).`;
  return (
    <GuessCard
      question={t`Inject Instability (at stage A) multiplies F(x) by ${INJECTED}. What does x̂ do?`}
      answers={ANSWERS}
      right={same ? 'a' : 'c'}
      item={state.guess}
      onAnswer={() => (state.unstable.value = true)}
      reply={
        state.unstable.value
          ? `${reply} ${t`Inject Instability is now on. Reset Stability switches it off.`}`
          : reply
      }
    />
  );
}
