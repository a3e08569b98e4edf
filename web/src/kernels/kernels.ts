// The package's kernels, and those that only the tutorial's module has: placements, the matrices of
// lanes, and sessions that train.

import { AddNorm, type Initialization, INITIALIZATIONS, KernelError, KINDS } from 'addnorm';
import { type Arena, Instance } from 'addnorm/instance';
import { msg } from '../language/template';
import { Lanes } from './lanes';

/** The norms' slots, and the factors. Each factor is named after a placement that uses it. */
export interface Arrangement {
  before: boolean;
  inside: boolean;
  after: boolean;
  skip: string;
  gain: string;
  beforeScale: string;
  initialGain: string;
  finalNorm: boolean;
}

/** A row of the library's table of placements. Its factors are formulas. */
export interface Placement extends Arrangement {
  name: string;
  usedBy: string;
  formulas: { skip: string; gain: string; beforeScale: string; initialGain: string };
}

export interface SessionOptions {
  layers: number;
  width: number;
  heads: number;
  context: number;
  batch: number;
  learningRate: number;
  warmUp: number;
  seed: number;
  initialization: Initialization;
  norm: 'layer' | 'rms';
}

/** The residual stream at initialization: the input of each layer, and the output of the last. */
export interface Measurement {
  loss: number;
  stream: number[]; // RMS
  gradient: number[]; // RMS of the loss's gradient
  tokenCosine: number[];
}

/** Adds the angle, in degrees, between the input and the output of each layer. */
export interface StackMeasurement extends Measurement {
  turn: number[];
}

/** The tokens of one sentence. For each layer and the end, there is a value
 * per token or per pair of tokens. */
export interface TokenMeasurement {
  tokens: number;
  loss: number;
  stream: Float64Array; // RMS
  gradient: Float64Array; // RMS of the loss's gradient
  cosine: Float64Array;
}

export class Kernels extends AddNorm {
  #instance: Instance;
  readonly lanes: Lanes;

  constructor(module: WebAssembly.Module) {
    super(module);
    this.#instance = new Instance(module);
    this.lanes = new Lanes(this.#instance);
  }

  /** The library's table of placements. */
  placements(): Placement[] {
    const table = JSON.parse(this.#instance.text(this.#instance.exports.placement_table()));
    return table.map((p: Placement) => {
      const { name } = p;
      return { ...p, skip: name, gain: name, beforeScale: name, initialGain: name };
    });
  }

  /** Creates a small decoder over bytes, as in `addnorm study`. All sessions share one instance of
   * the module. After a call that fails, all of them are unusable. */
  session(arrangement: Arrangement, options: SessionOptions, text: Uint8Array): Session {
    const handle = this.#instance.call((arena) =>
      arena.exports.session_create(
        ...this.#stack(arena, arrangement, options),
        arena.put(text),
        text.length,
      ),
    );
    const places = options.layers + 1;
    const home = this.#instance.exports;
    const isAlive = () => home === this.#instance.exports;
    const call = <R>(body: (arena: Arena) => R): R => {
      if (!isAlive()) throw new KernelError(msg`the session ended with an earlier error`);
      return this.#instance.call(body);
    };
    return {
      parameters: home.session_parameters(handle),
      unigramLoss: home.session_unigram_loss(handle),
      measure: () =>
        call((arena) => {
          const reserve = () => arena.reserve(8 * places);
          const [stream, gradient, tokenCosine, turn] = [1, 2, 3, 4].map(reserve);
          const to = arena.struct('Measurement', { stream, gradient, tokenCosine, turn });
          const loss = home.session_measure(handle, to);
          const values = (address: number, length = places) =>
            Array.from(arena.take(address, new Float64Array(length)));
          return {
            loss,
            stream: values(stream),
            gradient: values(gradient),
            tokenCosine: values(tokenCosine),
            turn: values(turn, options.layers),
          };
        }),
      step: () => call(() => home.session_step(handle)),
      validate: (batches) => call(() => home.session_validate(handle, batches)),
      destroy: () => {
        if (isAlive()) home.session_destroy(handle);
      },
    };
  }

  /** Measures a forward and a backward pass over context + 1 bytes, with initial weights. */
  measureSentence(
    arrangement: Arrangement,
    options: SessionOptions,
    text: Uint8Array,
  ): TokenMeasurement {
    const tokens = options.context;
    const values = (options.layers + 1) * tokens;
    return this.#instance.call((arena) => {
      const [stream, gradient] = [1, 2].map(() => arena.reserve(8 * values));
      const cosine = arena.reserve(8 * values * tokens);
      const loss = arena.exports.sentence_measure(
        ...this.#stack(arena, arrangement, options),
        arena.put(text),
        text.length,
        arena.struct('TokenMeasurement', { stream, gradient, cosine }),
      );
      return {
        tokens,
        loss,
        stream: arena.take(stream, new Float64Array(values)),
        gradient: arena.take(gradient, new Float64Array(values)),
        cosine: arena.take(cosine, new Float64Array(values * tokens)),
      };
    });
  }

  #stack(arena: Arena, arrangement: Arrangement, options: SessionOptions): [number, number] {
    return [
      arena.struct('Arrangement', this.#arrangement(arrangement)),
      arena.struct('SessionOptions', {
        ...options,
        initialization: INITIALIZATIONS.indexOf(options.initialization),
        norm: KINDS.indexOf(options.norm),
      }),
    ];
  }

  #arrangement(a: Arrangement) {
    const names = this.placements().map((p) => p.name);
    return {
      before: a.before,
      inside: a.inside,
      after: a.after,
      skip: names.indexOf(a.skip),
      gain: names.indexOf(a.gain),
      beforeScale: names.indexOf(a.beforeScale),
      initialGain: names.indexOf(a.initialGain),
      finalNorm: a.finalNorm,
    };
  }
}

export interface Session {
  readonly parameters: number;
  readonly unigramLoss: number; // the loss of byte frequencies, in nats per byte
  measure(): StackMeasurement;
  step(): number; // trains one step; returns the loss before it, in nats per byte
  validate(batches: number): number;
  destroy(): void;
}
