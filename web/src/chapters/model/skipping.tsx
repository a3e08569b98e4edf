// The network without a layer: first a guess, then the measurement.

import { t, Trans } from '../../language/text';
import { ChapterLink, Choice } from '../../ui/controls';
import { GuessCard } from '../../ui/guess';
import { Continuation, NextBytes } from './next-bytes';
import { PromptList } from './prompt-list';
import type { Shown } from './reading';
import { SkipBars } from './skip-bars';
import { state } from './state';
import { extremes, placeOf, skipWords } from './words';

export function Skipping({ prompt, reading }: Shown) {
  const { worst } = extremes(reading.withoutLayer);
  return (
    <>
      <p>
        <Trans>
          A residual network still works when one layer is left out: where F is skipped, s = x + 0 ·
          F(x) = x still carries everything from before. Without the residual nothing would pass. So
          each layer can be left out to see how much it is needed. Guess first.
        </Trans>
      </p>
      <GuessCard
        question={t`Without which layer does the network predict worst?`}
        answers={{ first: t`the first`, middle: t`one in between`, last: t`the last` }}
        right={placeOf(worst, reading.network.layers)}
        item={state.guess}
        reply={skipWords(reading)}
      />
      {state.guess.value !== 'none' && <Skipped prompt={prompt} reading={reading} />}
    </>
  );
}

function Skipped({ prompt, reading }: Shown) {
  const { whole, withoutLayer, withoutSublayer } = reading;
  const part = state.part.value;
  const skip = state.skip.value;
  const chosen = skip === 'none' ? -1 : Number(skip);
  return (
    <>
      <PromptList />
      <div class="controls">
        <Choice
          label={t`Leave out`}
          item={state.part}
          labels={{ layer: t`whole layers`, sublayer: t`sublayers` }}
        />
      </div>
      <SkipBars
        whole={whole}
        without={part === 'layer' ? withoutLayer : withoutSublayer}
        part={part}
        chosen={chosen}
      />
      <p class="hint">
        <Trans>
          The dashed line is the whole network. The loss is in{' '}
          <ChapterLink to="placement">nats per byte</ChapterLink>: a uniform guess among 256 bytes
          gives 5.55.
        </Trans>
      </p>
      <div class="controls">
        <Choice label={t`Predict without layer`} item={state.skip} />
      </div>
      {chosen >= 0 && (
        <>
          <Continuation prompt={prompt} prediction={withoutLayer[chosen]} />
          <NextBytes whole={whole} without={withoutLayer[chosen]} skipped={t`layer ${skip}`} />
        </>
      )}
    </>
  );
}
