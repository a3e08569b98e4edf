// The questions, with a reply to each answer.

import { t } from '../../language/text';

export interface Answer {
  text?: string;
  tex?: string; // after the text
  end?: string; // after the formula
  spoken?: string; // the formula, for screen readers
  reply: string;
}

export interface Question {
  id: 'q1' | 'q2' | 'q3' | 'q4' | 'q5' | 'q6' | 'q7';
  text: string;
  tex?: string; // below the text
  answers: readonly Answer[];
  right: number;
  /** The chapter that explains the answer. */
  chapter: string;
  link: string;
}

export const LETTERS = ['a', 'b', 'c', 'd'] as const;

export const questions: readonly Question[] = [
  {
    id: 'q1',
    text: t`Language models use LayerNorm or RMSNorm, and not BatchNorm. Why?`,
    answers: [
      {
        text: t`They have fewer parameters.`,
        reply: t`LayerNorm has one γ and one β for each feature, as BatchNorm has.`,
      },
      {
        text: t`Both take their statistics from one token alone.`,
        reply: t`So neither the batch size nor the lengths of other sequences matter. A token gets the same output in training and when text is written one token at a time.`,
      },
      {
        text: t`BatchNorm cannot subtract the mean from negative values.`,
        reply: t`A mean can be subtracted from any values.`,
      },
      {
        text: t`BatchNorm makes every token of a sentence the same.`,
        reply: t`It makes tokens depend on each other, but does not make them equal.`,
      },
    ],
    right: 1,
    chapter: 'axes',
    link: t`Which axes: set BatchNorm to batch size 1`,
  },
  {
    id: 'q2',
    text: t`F is nearly flat: ∂F/∂x is close to 0. What does a residual do for the gradient?`,
    tex: 'y = x + F(x)',
    answers: [
      {
        text: t`It makes ∂F/∂x larger.`,
        reply: t`F is as flat as before. The gradient has a second path, past F.`,
      },
      {
        text: t`It divides the gradient by the deviation of x.`,
        reply: t`That is what a norm’s backward pass does.`,
      },
      {
        text: t`Nothing, until γ has been learned.`,
        reply: t`A residual sum has no γ, and works from the first step.`,
      },
      {
        text: t`It adds the identity, so that the gradient passes unchanged:`,
        tex: '\\partial y / \\partial x = 1 + \\partial F / \\partial x',
        spoken: t`dy by dx is 1 plus dF by dx`,
        reply: t`With ∂F/∂x near 0 the derivative is near 1. Through many layers without residuals, factors near 0 are multiplied instead, and the gradient vanishes.`,
      },
    ],
    right: 3,
    chapter: 'highway',
    link: t`The highway: see the gradient with and without residuals`,
  },
  {
    id: 'q3',
    text: t`Which sublayer is pre-norm?`,
    answers: [
      {
        tex: 'y = x + F(\\mathrm{LN}(x))',
        spoken: t`y is x plus F of LN of x`,
        reply: t`The norm stands before F, in the branch. The residual stream runs past it through sums alone, which makes deep stacks easier to train without warm-up.`,
      },
      {
        tex: 'y = \\mathrm{LN}(x + F(x))',
        spoken: t`y is LN of the sum of x and F of x`,
        reply: t`That is post-norm, as in the Transformer of 2017: the norm comes after the sum.`,
      },
      {
        tex: 'y = \\mathrm{LN}(x) + F(x)',
        spoken: t`y is LN of x, plus F of x`,
        reply: t`Here the stream itself is normalized and F is not. No common variant does that.`,
      },
    ],
    right: 0,
    chapter: 'placement',
    link: t`Where the norm goes: switch between them`,
  },
  {
    id: 'q4',
    text: t`After normalizing, why multiply by a learned γ and add a learned β?`,
    answers: [
      {
        text: t`To keep the deviation from being 0.`,
        reply: t`That is what ε is for.`,
      },
      {
        text: t`To make up for rounding errors.`,
        reply: t`γ and β are learned from the loss; rounding is too small to matter here.`,
      },
      {
        text: t`To let each feature have the scale and offset that serve the model.`,
        reply: t`Without them every normalized vector has mean 0 and variance 1. With them the model can choose a scale and an offset for each feature, even the original ones.`,
      },
    ],
    right: 2,
    chapter: 'step-by-step',
    link: t`Step by step: move γ and β`,
  },
  {
    id: 'q5',
    text: t`Post-norm, at initialization. Each branch adds variance v, independent of its input. What is the variance of the sum just before the norm of layer 50?`,
    tex: 'x_{l+1} = \\mathrm{LN}(x_l + F(x_l))',
    answers: [
      {
        tex: '1 + 50\\,v',
        spoken: t`1 plus 50 v`,
        reply: t`Many texts say that it grows with depth. But each norm brings the variance back to 1, so nothing accumulates.`,
      },
      {
        tex: '1 + v',
        spoken: t`1 plus v`,
        reply: t`Layer 50 reads a normalized stream of variance 1, as each layer after the first does, and its branch adds v. The sum does not grow with depth.`,
      },
      {
        tex: '(1 + v)^{50}',
        spoken: t`1 plus v, to the power of 50`,
        reply: t`Variances would multiply like this without norms, if F scaled with its input.`,
      },
      {
        tex: '1',
        spoken: '1',
        reply: t`That is the variance after the norm. The sum before it also has the branch’s v.`,
      },
    ],
    right: 1,
    chapter: 'placement',
    link: t`Where the norm goes: compare the streams of post and pre`,
  },
  {
    id: 'q6',
    text: t`Pre-norm, with the same assumption. What is the variance of the stream after L sublayers?`,
    tex: 'x_{l+1} = x_l + F(\\mathrm{LN}(x_l))',
    answers: [
      {
        tex: '1',
        spoken: '1',
        reply: t`No norm stands in the stream: only the branch’s input is brought to variance 1.`,
      },
      {
        tex: '\\mathrm{Var}(x_0) + v',
        spoken: t`the variance of x 0 plus v`,
        reply: t`That is the stream after one sublayer. Each later one adds its own v.`,
      },
      {
        tex: '\\mathrm{Var}(x_0) \\cdot v^L',
        spoken: t`the variance of x 0 times v to the power of L`,
        reply: t`Branches are added, not multiplied.`,
      },
      {
        tex: '\\mathrm{Var}(x_0) + L\\,v',
        spoken: t`the variance of x 0 plus L times v`,
        reply: t`Variances of independent terms add up, so the stream’s variance grows linearly with L, and its size, the RMS, with √L. What stays in range is the input of each branch, which the norm brings to variance 1.`,
      },
    ],
    right: 3,
    chapter: 'placement',
    link: t`Where the norm goes: see the stream grow by layer`,
  },
  {
    id: 'q7',
    text: t`With the same assumption, look at the gradient that takes only the skip connections, past every F. By what factor do L sublayers change it in post-norm and in pre-norm?`,
    answers: [
      {
        text: t`By 1 in both.`,
        reply: t`In pre-norm it is 1. In post-norm that path goes through every norm, which divides the gradient by the deviation of its input.`,
      },
      {
        text: t`By about`,
        tex: '(1 + v)^{-L/2}',
        spoken: t`1 plus v, to the power of minus L over 2`,
        end: t`in post-norm, by 1 in pre-norm.`,
        reply: t`Each sum of post-norm has variance 1 + v, so its norm divides the gradient by the root of that, L times. In pre-norm the skip connections are sums alone: the factor is 1 for every L. The whole gradient also takes the paths through the branches. With initial weights they can compensate, so post-norm’s gradient may still arrive.`,
      },
      {
        text: t`By 1 in post-norm, by about`,
        tex: '(1 + v)^{-L/2}',
        spoken: t`1 plus v, to the power of minus L over 2`,
        end: t`in pre-norm.`,
        reply: t`It is the other way round: the norms stand in the stream in post-norm, not in pre-norm.`,
      },
      {
        text: t`By L in both, as gradients add up.`,
        reply: t`Gradients of several paths add up. This is a single path: its factors are multiplied.`,
      },
    ],
    right: 1,
    chapter: 'placement',
    link: t`Where the norm goes: compare the gradients of post and pre`,
  },
];
