// The hero's stacks: one sentence through a Transformer with or without Add and Norm.

import type { Stack } from '../kernels/session-host';

/** The sentence; each byte has a lane. */
export const SENTENCE = 'What does a deep network forget?';

/** Xavier's initial weights are the largest of the three. With them, a
 * missing part shows within 24 layers. */
export const OPTIONS = {
  layers: 24,
  width: 64,
  heads: 2,
  context: SENTENCE.length,
  batch: 1,
  learningRate: 0,
  warmUp: 0,
  seed: 0,
  initialization: 'xavier',
  norm: 'layer',
} as const;

/** The text of the model: the sentence, and the byte after it. */
export const TEXT = new TextEncoder().encode(`${SENTENCE}\n`);

/** Pre-norm, without the parts that are switched off. */
export function stackOf(add: boolean, norm: boolean): Stack {
  return {
    options: OPTIONS,
    arrangement: {
      before: norm,
      inside: false,
      after: false,
      skip: add ? 'pre' : 'plain',
      gain: 'pre',
      beforeScale: 'pre',
      initialGain: 'pre',
      finalNorm: norm && add,
    },
  };
}
