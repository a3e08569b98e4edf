// A guess about post-norm without warm-up. The reader's own training answers it.

import { t, Trans } from '../../language/text';
import { Choice } from '../../ui/controls';
import { state } from './state';
import { coldFate, type Outcome, verdict } from './verdict';

const ANSWERS = {
  trains: t`It falls below byte frequencies`,
  stalls: t`It stalls at byte frequencies`,
  diverges: t`It diverges`,
};

/** The question. `outcome` is that of the newest training of post-norm. */
export function TrainGuess({ outcome }: { outcome: Outcome | undefined }) {
  const guess = state.cold.value;
  return (
    <div class="card guess">
      <Choice
        label={t`Post-norm, at the full learning rate from the first step on: what does the loss do?`}
        item={state.cold}
        values={['trains', 'stalls', 'diverges']}
        labels={ANSWERS}
      />
      <div aria-live="polite">{guess !== 'none' && <Reply guess={guess} outcome={outcome} />}</div>
    </div>
  );
}

interface ReplyProps {
  guess: keyof typeof ANSWERS;
  outcome: Outcome | undefined;
}

function Reply({ guess, outcome }: ReplyProps) {
  if (outcome === undefined)
    return (
      <p>
        <Trans>Now start the training: it takes about half a minute.</Trans>
      </p>
    );
  const isRight = coldFate(outcome) === guess;
  return (
    <p>
      <strong class={isRight ? 'good' : 'bad'}>{isRight ? t`Right.` : t`Not quite.`}</strong>{' '}
      {verdict(outcome)}
    </p>
  );
}
