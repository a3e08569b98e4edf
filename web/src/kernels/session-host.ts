// Measures stacks and trains one, in a worker. Each call is short, so that the
// caller can stop between two calls.

import { msg } from '../language/template';
import type {
  Arrangement,
  Kernels,
  Session,
  SessionOptions,
  StackMeasurement,
  TokenMeasurement,
} from './kernels';
import { type PromptReading, readPrompt } from './trained';

export interface Stack {
  arrangement: Arrangement;
  options: SessionOptions;
}

export interface Opened {
  parameters: number;
  unigramLoss: number;
}

export type Timed<T> = T & { milliseconds: number };

export class SessionHost {
  #kernels: Kernels;
  #session: Session | undefined;

  constructor(kernels: Kernels) {
    this.#kernels = kernels;
  }

  /** Measures a stack with its initial weights. */
  measure({ arrangement, options }: Stack, text: Uint8Array): Timed<StackMeasurement> {
    const start = performance.now();
    const session = this.#kernels.session(arrangement, options, text);
    try {
      return { ...session.measure(), milliseconds: performance.now() - start };
    } finally {
      session.destroy();
    }
  }

  /** Measures the tokens of a sentence in a stack with its initial weights. */
  measureSentence({ arrangement, options }: Stack, text: Uint8Array): Timed<TokenMeasurement> {
    const start = performance.now();
    const tokens = this.#kernels.measureSentence(arrangement, options, text);
    return { ...tokens, milliseconds: performance.now() - start };
  }

  /** Measures the network of this file on a prompt. */
  readPrompt(file: ArrayBuffer, prompt: Uint8Array): Timed<PromptReading> {
    const start = performance.now();
    const reading = readPrompt(this.#kernels.module, file, prompt);
    return { ...reading, milliseconds: performance.now() - start };
  }

  /** Creates the stack of train() and validate(). */
  open({ arrangement, options }: Stack, text: Uint8Array): Opened {
    this.#session?.destroy();
    this.#session = undefined;
    this.#session = this.#kernels.session(arrangement, options, text);
    const { parameters, unigramLoss } = this.#session;
    return { parameters, unigramLoss };
  }

  /** Trains at most `most` steps or for this time. Stops at a loss that is not finite. */
  train(most: number, milliseconds: number): Timed<{ losses: number[] }> {
    const losses: number[] = [];
    const start = performance.now();
    let spent = 0;
    while (losses.length < most && spent < milliseconds && Number.isFinite(losses.at(-1) ?? 0)) {
      losses.push(this.#opened().step());
      spent = performance.now() - start;
    }
    return { losses, milliseconds: spent };
  }

  /** Measures the stack in its current state of training. */
  measureTrained(): StackMeasurement {
    return this.#opened().measure();
  }

  validate(batches: number): number {
    return this.#opened().validate(batches);
  }

  #opened(): Session {
    if (this.#session === undefined) throw new Error(msg`There is no stack to train.`);
    return this.#session;
  }
}
