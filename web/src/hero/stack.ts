// The hero's stacks: one sentence through a Transformer with or without Add and Norm.

import type { Stack } from '../kernels/session-host';

/** The first sentence; each byte has a lane. */
export const SENTENCE = 'What does a deep network forget?';

/** The bytes of a reader's own sentence: two tokens have a similarity, and lanes must stay apart. */
export const BYTES = { min: 2, max: SENTENCE.length };

/** The tokens of a sentence. */
export function bytesOf(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}

/** Xavier's initial weights are the largest of the three. With them, a
 * missing part shows within 24 layers. */
export const OPTIONS = {
  layers: 24,
  width: 64,
  heads: 2,
  batch: 1,
  learningRate: 0,
  warmUp: 0,
  seed: 0,
  initialization: 'xavier',
  norm: 'layer',
} as const;

/** The text of the model: the sentence, and the byte after it. */
export function textOf(sentence: string): Uint8Array {
  return bytesOf(`${sentence}\n`);
}

export interface Parts {
  add: boolean;
  norm: boolean;
}

/** Pre-norm for a sentence, without the parts that are switched off. */
export function stackOf({ add, norm }: Parts, sentence = SENTENCE): Stack {
  return {
    options: { ...OPTIONS, context: bytesOf(sentence).length },
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
