// Short explanations of the ideas behind the figures.

import type { ComponentChildren } from 'preact';
import { WithTerms } from '../../glossary/view';
import { t, Trans } from '../../language/text';
import { ChapterLink } from '../../ui/controls';
import { Formula } from '../../ui/formula';

export function Concepts() {
  return (
    <>
      <Idea title={t`Why add, and why norm`}>
        <p>{t`Attention and feed-forward networks change the data. Each change can lose information,
          and a deep network makes many of them. The identity path carries x past the sublayer
          unchanged, so F only has to compute the change.`}</p>
        <p>
          <Trans>
            The gradient benefits as well: the derivative of x + F(x) is 1 + ∂F/∂x, and the 1 does
            not pass through F. <ChapterLink to="highway">The highway</ChapterLink> measures this
            effect over a hundred layers.
          </Trans>
        </p>

        <p>
          <WithTerms
            text={t`Each addition can make the numbers larger, so the next layer could receive values of
          any size. LayerNorm shifts one token’s vector to mean 0 and scales it to standard
          deviation 1. Then the learned γ and β set the scale and the offset that suit the next
          layer. With γ = σ and β = μ they would undo the norm for one vector.`}
          />
        </p>
        <p>
          <Trans>
            The gradient is divided by σ too: <ChapterLink to="backward">Backward</ChapterLink>{' '}
            shows it.
          </Trans>
        </p>
      </Idea>
      <Idea title={t`Internal covariate shift: a reason that was tested`}>
        <p>{t`In 2015 the authors of BatchNorm gave this reason: while the layers below learn, the
          inputs of a layer drift (internal covariate shift), and a norm stops the drift. The same
          reason is often repeated for LayerNorm. Santurkar et al. 2018 tested it. They added noise
          after each BatchNorm, so that the inputs drifted more than without any norm. The network
          still trained nearly as fast as with BatchNorm alone. They found instead that BatchNorm
          makes the loss smoother. Xu et al. 2019 found that LayerNorm’s effect on the gradient
          matters more than its effect on the values.`}</p>
        <p>{t`Regularization is often given as a second reason. BatchNorm’s statistics vary with the
          batch, and this noise can regularize. LayerNorm takes its statistics from the token itself
          and has no such noise.`}</p>
      </Idea>
      <Idea title={t`Add & Norm in the Transformer: the formula, its ε, and sizes`}>
        <p>{t`The original Transformer has Add & Norm after every sublayer:`}</p>
        <Formula block tex="\text{AddNorm}(x, F(x)) = \text{LayerNorm}(x + F(x))" />
        <p>
          <Trans>
            This gives LayerNorm(x + Attention(x)) after attention, and LayerNorm(x + FFN(x)) after
            the feed-forward network. This order is called post-norm. Most models now put the norm
            before the sublayer: <ChapterLink to="placement">Where the norm goes</ChapterLink>.
          </Trans>
        </p>

        <Formula block tex="y = \gamma\,\frac{s - \mu}{\sigma} + \beta" />
        <Formula block tex="\mu = \tfrac1n\textstyle\sum_i s_i" />
        <Formula block tex="\sigma = \sqrt{\tfrac1n\textstyle\sum_i (s_i - \mu)^2 + \varepsilon}" />
        <p>
          <Trans>
            The norm’s input s = x + F(x) is the sum of stage A. ε keeps σ from being zero if all
            values are equal. In this chapter ε = 1e-8 is added under the square root. Most
            libraries add it there too, with 1e-5 or 1e-6; some code adds ε to σ instead. You can
            try both places in <ChapterLink to="step-by-step">Step by step</ChapterLink>.
          </Trans>
        </p>

        <p>{t`A token’s vector has d_model features: 512 in the original Transformer, 768 in the
          small GPT-2. Here d_model = 5, so that every number is visible. The arithmetic is the
          same. Each token is normalized by itself. γ and β have one value for each feature; here
          one slider sets all five.`}</p>
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
