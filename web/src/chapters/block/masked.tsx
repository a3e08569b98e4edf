// The causal mask: attention with and without it, and the tokens that an output depends on.

import { useMemo } from 'preact/hooks';
import { t, Trans } from '../../language/text';
import { Checkbox, Slider } from '../../ui/controls';
import { GuessCard } from '../../ui/guess';
import { fixedNumber, percent, roundNumber } from '../../ui/numbers';
import { largest } from '../../ui/vectors';
import { type Attention, attentionOf, WIDTH } from './mask';
import { MaskFigure } from './mask-figure';
import { state, TOKENS } from './state';

export function CausalMask() {
  const placement = state.placement.value;
  const replaced = state.token.value - 1;
  const [open, masked] = useMemo(
    () => [false, true].map((causal) => attentionOf(placement, causal, replaced)),
    [placement, replaced],
  );
  const causal = state.causal.value;
  return (
    <>
      <h3>{t`The causal mask`}</h3>
      <p>
        <Trans>
          A decoder learns to predict the next token, so no token may attend to a later one. The
          causal mask prevents this: before the softmax it sets the scores of later tokens to −∞.
          Their weights become 0, and the others still add up to 1. The mask has no parameters and
          changes no shape. All decoders on this page have it; an encoder such as BERT has none.
        </Trans>
      </p>
      <Question masked={masked} />
      <div class="controls">
        <Checkbox label={t`Causal mask`} item={state.causal} />
        <Slider label={t`Changed token`} item={state.token} />
      </div>
      <MaskFigure
        attention={causal ? masked : open}
        replaced={replaced}
        masked={causal}
        most={largest([...open.changes, ...masked.changes])}
      />
      <p data-verdict="mask">{verdict(causal ? masked : open, causal, replaced)}</p>
      <p class="hint">
        {t`Measured in a block of d_model ${WIDTH} and one head with initial weights, on ${TOKENS}
          random tokens. Each row has the weights with which one token reads all tokens, itself
          included; they add up to 1. Without the mask, token 2 gives ${weight(open, 1, 0)} of its
          attention to token 1. With the mask, only tokens 1 and 2 share its attention, and token 1
          gets ${weight(masked, 1, 0)}.`}
      </p>
    </>
  );
}

function weight({ weights }: Attention, reader: number, read: number): string {
  return fixedNumber(weights[reader][read], 2);
}

/** A question about the mask. An answer switches the mask on. */
function Question({ masked }: { masked: Attention }) {
  const changed = masked.changes.filter((change) => change > 0).length;
  return (
    <GuessCard
      question={t`The mask is on, and token ${state.token.value} is changed. Which outputs change?`}
      item={state.guess}
      answers={{ a: t`Only its own`, b: t`Its own and those of later tokens`, c: t`All` }}
      right="b"
      onAnswer={() => (state.causal.value = true)}
      reply={t`${changed} of ${TOKENS} outputs change: its own and those of all later tokens, which
        attend to it. So a decoder can keep its results for the tokens so far, whatever comes next.
        Try it without the mask.`}
    />
  );
}

function verdict({ weights, changes }: Attention, causal: boolean, replaced: number): string {
  const later = weights.map((row, t) => row.slice(t + 1).reduce((sum, w) => sum + w, 0));
  const earlier = changes.slice(0, replaced);
  const share = percent(later.reduce((sum, w) => sum + w, 0) / TOKENS, 2);
  const seen = causal
    ? t`The weights of later tokens add up to ${roundNumber(largest(later), 3)}.`
    : t`On average ${share} of a token’s attention goes to later tokens.`;
  if (earlier.length === 0) return `${seen} ${t`Token 1 has no token before it.`}`;
  const [token, most] = [replaced + 1, roundNumber(largest(earlier), 3)];
  const change = earlier.every((change) => change === 0)
    ? t`Token ${token} is changed, and no output before it has changed by a single bit.`
    : t`Token ${token} is changed, and outputs before it have changed by up to ${most}.`;
  return `${seen} ${change}`;
}
