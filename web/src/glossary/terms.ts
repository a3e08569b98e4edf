// The terms of the page and their definitions.

import { t } from '../language/text';

export interface Term {
  id: string;
  name: string;
  /** The forms of the term in text, separated by “|”. */
  forms: string;
  words: string;
}

export const TERMS: readonly Term[] = [
  {
    id: 'token',
    name: t`token`,
    forms: t`token|tokens`,
    words: t`A piece of text that the model processes as one unit. On this page most tokens are single
      bytes.`,
  },
  {
    id: 'feature',
    name: t`feature`,
    forms: t`feature|features`,
    words: t`One of the numbers of a token’s vector. A token has d_model features.`,
  },
  {
    id: 'sublayer',
    name: t`sublayer`,
    forms: t`sublayer|sublayers`,
    words: t`Attention or a feed-forward network. A layer of a Transformer has one of each.`,
  },
  {
    id: 'attention',
    name: t`attention`,
    forms: t`attention`,
    words: t`The sublayer in which tokens read from each other.`,
  },
  {
    id: 'residual-stream',
    name: t`residual stream`,
    forms: t`residual stream|stream`,
    words: t`A token’s vector on its way through all layers. Each sublayer reads it and adds to it.`,
  },
  {
    id: 'residual',
    name: t`residual connection`,
    forms: t`residual connection|residual connections|residual|residuals`,
    words: t`The sum x + F(x): the input of a sublayer is added to its output.`,
  },
  {
    id: 'layer-norm',
    name: 'LayerNorm',
    forms: 'LayerNorm',
    words: t`Subtracts the mean of a token’s features and divides by their standard deviation. Then γ
      scales each feature and β shifts it.`,
  },
  {
    id: 'rms-norm',
    name: 'RMSNorm',
    forms: 'RMSNorm',
    words: t`Divides a token’s features by their RMS. It subtracts no mean and usually has no β.`,
  },
  {
    id: 'batch-norm',
    name: 'BatchNorm',
    forms: 'BatchNorm',
    words: t`Normalizes each feature over all examples of a batch, so examples depend on each other.`,
  },
  {
    id: 'epsilon',
    name: 'ε',
    forms: 'ε',
    words: t`A small constant, often 0.00001, that keeps a norm from dividing by 0.`,
  },
  {
    id: 'gamma-beta',
    name: t`γ and β`,
    forms: 'γ|β',
    words: t`The learned numbers of a norm, one pair for each feature: γ scales, β shifts. They start at
      1 and 0.`,
  },
  {
    id: 'mean',
    name: t`mean μ`,
    forms: 'μ',
    words: t`The sum of some numbers divided by their count.`,
  },
  {
    id: 'deviation',
    name: t`standard deviation σ`,
    forms: t`standard deviation|deviation|σ`,
    words: t`How far numbers typically lie from their mean: the square root of the mean squared distance.`,
  },
  {
    id: 'rms',
    name: 'RMS',
    forms: t`RMS|root mean square`,
    words: t`Root mean square, the typical size of some numbers: square them, take the mean, take
      the square root.`,
  },
  {
    id: 'pre-norm',
    name: t`pre-norm`,
    forms: t`pre-norm`,
    words: t`The norm stands before the sublayer: y = x + F(Norm(x)). GPT-2 and most models since use it.`,
  },
  {
    id: 'post-norm',
    name: t`post-norm`,
    forms: t`post-norm`,
    words: t`The norm stands after the sum: y = Norm(x + F(x)). The Transformer of 2017 uses it.`,
  },
  {
    id: 'gradient',
    name: t`gradient`,
    forms: t`gradient|gradients`,
    words: t`For each number, how much the loss changes if that number changes a little. Training
      moves the weights against the gradient.`,
  },
  {
    id: 'loss',
    name: t`loss`,
    forms: t`loss`,
    words: t`One number that says how wrong a model’s predictions are. Training makes it smaller.`,
  },
  {
    id: 'nats',
    name: t`nats`,
    forms: t`nats`,
    words: t`The unit of a loss −ln p, where p is the probability of what actually follows. 1 nat is
      1.44 bits.`,
  },
  {
    id: 'logits',
    name: t`logits`,
    forms: t`logits|logit`,
    words: t`A model’s scores before softmax turns them into probabilities.`,
  },
  {
    id: 'softmax',
    name: t`softmax`,
    forms: t`softmax`,
    words: t`Turns scores into probabilities: it exponentiates each score and divides by the sum.`,
  },
  {
    id: 'logit-lens',
    name: t`logit lens`,
    forms: t`logit lens`,
    words: t`Applies the model’s last norm and its head to the stream of an earlier layer. It shows what
      the model would predict if it ended there.`,
  },
  {
    id: 'initial-weights',
    name: t`initial weights`,
    forms: t`initial weights`,
    words: t`The random numbers that a network’s weights have before training.`,
  },
  {
    id: 'xavier',
    name: 'Xavier',
    forms: 'Xavier',
    words: t`A recipe for initial weights: uniform random numbers within ±√(6/(in + out)), where in and
      out are the numbers of a layer’s inputs and outputs.`,
  },
  {
    id: 'learning-rate',
    name: t`learning rate`,
    forms: t`learning rate|learning rates`,
    words: t`How far one step of training moves the weights.`,
  },
  {
    id: 'warm-up',
    name: t`learning-rate warm-up`,
    forms: t`learning-rate warm-up|warm-up`,
    words: t`The learning rate grows from almost 0 to its full value during the first steps of
      training.`,
  },
  {
    id: 'cosine',
    name: t`cosine`,
    forms: t`cosine|cosines`,
    words: t`How similar the directions of two vectors are: 1 for the same direction, 0 for a right
      angle, −1 for opposite directions.`,
  },
  {
    id: 'token-similarity',
    name: t`token similarity`,
    forms: t`token similarity`,
    words: t`The mean cosine of all pairs of tokens. At 1 all tokens point in the same direction.`,
  },
  {
    id: 'lane',
    name: t`lane`,
    forms: t`lane|lanes`,
    words: t`One of several residual streams of a token, side by side.`,
  },
];
