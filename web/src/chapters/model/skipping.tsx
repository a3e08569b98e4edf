// What becomes of the network where a layer is left out: a guess first, then the measurement.

import type { PromptReading } from '../../kernels/trained';
import { Choice } from '../../ui/controls';
import { Continuation, NextBytes } from './next-bytes';
import type { Shown } from './reading';
import { SkipBars } from './skip-bars';
import { state } from './state';
import { extremes, placeOf, skipWords } from './words';

const PLACES = { first: 'the first', middle: 'one in between', last: 'the last' };

export function Skipping({ prompt, reading }: Shown) {
  const guess = state.guess.value;
  return (
    <>
      <p>
        A residual network works without one of its layers: where F is skipped, s = x + 0 · F(x) = x
        still brings all that was there before. Without the residual nothing would come through. So
        every layer can be taken out, to see what is missed. Guess first.
      </p>
      <Choice
        label="Without which layer does the network predict worst?"
        item={state.guess}
        values={['first', 'middle', 'last']}
        labels={PLACES}
        right={placeOf(extremes(reading.withoutLayer).worst, reading.network.layers)}
      />
      <div aria-live="polite">{guess !== 'none' && <Reply reading={reading} guess={guess} />}</div>
      {guess !== 'none' && <Skipped prompt={prompt} reading={reading} />}
    </>
  );
}

interface ReplyProps {
  reading: PromptReading;
  guess: keyof typeof PLACES;
}

function Reply({ reading, guess }: ReplyProps) {
  const { layers } = reading.network;
  const { worst } = extremes(reading.withoutLayer);
  const isRight = placeOf(worst, layers) === guess;
  return (
    <p>
      <strong class={isRight ? 'good' : 'bad'}>{isRight ? 'Right.' : 'Not so.'}</strong>{' '}
      {skipWords(reading)}
    </p>
  );
}

function Skipped({ prompt, reading }: Shown) {
  const { whole, withoutLayer, withoutSublayer } = reading;
  const part = state.part.value;
  const skip = state.skip.value;
  const chosen = skip === 'none' ? -1 : Number(skip);
  return (
    <>
      <div class="controls">
        <Choice
          label="Skip"
          item={state.part}
          labels={{ layer: 'whole layers', sublayer: 'sublayers' }}
        />
      </div>
      <SkipBars
        whole={whole}
        without={part === 'layer' ? withoutLayer : withoutSublayer}
        part={part}
        chosen={chosen}
      />
      <p class="hint">
        The dashed line is the whole network. Guessing blindly among 256 bytes costs ln 256 ≈ 5.55
        nats a byte.
      </p>
      <div class="controls">
        <Choice label="Predict without layer" item={state.skip} />
      </div>
      {chosen >= 0 && (
        <>
          <Continuation prompt={prompt} prediction={withoutLayer[chosen]} />
          <NextBytes whole={whole} without={withoutLayer[chosen]} skipped={`layer ${skip}`} />
        </>
      )}
    </>
  );
}
