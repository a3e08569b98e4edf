/** The speaker's notes, one for each step of a presentation. */
export const notes = [
  t`The paper of 2017 has the norm after the sum. Nearly every model since GPT-2 has it before the sublayer. Ask why it was moved.`,
  t`Press post, then pre, and follow the thick line from x at the top to y at the bottom. In pre there is no norm on it.`,
  t`Take a vote on the 12 layers first: most expect post-norm to lose its gradient. Then break the stack, and repair it with one norm. Compare the slopes.`,
  t`Ask: which layer turns the stream most, the first or the last? With PyTorch’s weights the difference is small. Then choose Xavier’s.`,
  t`The two runs differ only in warm-up. If you have changed the layers or weights, choose 12 layers and PyTorch’s again. Let the audience guess which run gets below the dashed line, then press Start training. It takes half a minute. The second chart shows why. Then choose pre. One seed is one sample.`,
];

import { t } from '../../language/text';
