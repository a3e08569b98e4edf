// Short explanations of the ideas behind the figures.

import type { ComponentChildren } from 'preact';
import { t, Trans } from '../../language/text';
import { ChapterLink } from '../../ui/controls';
import { Formula } from '../../ui/formula';

export function Concepts() {
  return (
    <>
      <Idea title={t`Why add`}>
        <p>{t`Attention and feed-forward networks change the data. Through many layers each change can
          lose something. The identity path carries x past the sublayer, so that F only has to say
          what should be different.`}</p>
        <p>
          <Trans>
            The gradient gains as well: the derivative of x + F(x) is 1 + ∂F/∂x, and the 1 does not
            pass through F. <ChapterLink to="highway">The highway</ChapterLink> measures what that
            is worth over a hundred layers.
          </Trans>
        </p>
      </Idea>
      <Idea title={t`Why norm`}>
        <p>{t`Each addition can make the numbers larger, and the next layer would receive values of any
          size. LayerNorm takes one token's vector, moves its mean to 0 and makes its standard
          deviation 1. Then γ and β, which are learned, set the scale and the offset that suit the
          next layer. With γ = σ and β = μ they would undo the norm for one vector.`}</p>
        <p>
          <Trans>
            The gradient is divided by σ too: <ChapterLink to="backward">Backward</ChapterLink>{' '}
            shows it.
          </Trans>
        </p>
      </Idea>
      <Idea title={t`Internal covariate shift: a reason that was tested`}>
        <p>{t`BatchNorm’s authors gave a reason in 2015: while the layers below learn, the inputs of a
          layer drift (internal covariate shift), and a norm stops the drift. It is often repeated
          for LayerNorm. Santurkar et al. 2018 tested it: they added noise after each BatchNorm, so
          that the inputs drifted more than without any norm, and the network still trained nearly
          as fast as with BatchNorm alone. What they found instead is a smoother loss. Of LayerNorm,
          Xu et al. 2019 found that what it does to the gradient matters more than what it does to
          the values.`}</p>
        <p>{t`A second reason is often given with it, regularization. BatchNorm’s statistics vary with
          the batch, and that noise can act so. LayerNorm takes its statistics from the token itself
          and has no such noise.`}</p>
      </Idea>
      <Idea title={t`Where it stands`}>
        <p>{t`In the original Transformer, after every sublayer:`}</p>
        <Formula block tex="\text{AddNorm}(x, F(x)) = \text{LayerNorm}(x + F(x))" />
        <p>
          <Trans>
            So it is LayerNorm(x + Attention(x)) after attention, and LayerNorm(x + FFN(x)) after
            the feed-forward network. This order is called post-norm. Most models now put the norm
            before the sublayer, as in the third column above:{' '}
            <ChapterLink to="placement">Where the norm goes</ChapterLink>.
          </Trans>
        </p>
      </Idea>
      <Idea title={t`The formula, and its ε`}>
        <Formula block tex="y = \gamma\,\frac{s - \mu}{\sigma} + \beta" />
        <Formula block tex="\mu = \tfrac1n\textstyle\sum_i s_i" />
        <Formula block tex="\sigma = \sqrt{\tfrac1n\textstyle\sum_i (s_i - \mu)^2 + \varepsilon}" />
        <p>
          <Trans>
            s = x + F(x) is the sum of stage A, the vector that comes in. ε keeps σ from being zero
            where all values are equal. In this chapter ε = 1e-8 is under the root, where most
            libraries have it with 1e-5 or 1e-6; some code adds ε to σ instead. In{' '}
            <ChapterLink to="step-by-step">Step by step</ChapterLink> you can try both.
          </Trans>
        </p>
      </Idea>
      <Idea title={t`Five numbers here, hundreds in a model`}>
        <p>{t`A token's vector has d_model features: 512 in the original Transformer, 768 in the small
          GPT-2. Here d_model = 5, so that every number can be seen. The arithmetic is the same.
          Each token is normalized by itself, and γ and β have one value for each feature; here one
          slider sets all five.`}</p>
      </Idea>
    </>
  );
}

function Idea({ title, children }: { title: string; children: ComponentChildren }) {
  return (
    <details>
      <summary>{title}</summary>
      {children}
    </details>
  );
}
