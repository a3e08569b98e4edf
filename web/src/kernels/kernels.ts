// The package's kernels, and what the tutorial's module adds to them: placements, the matrices of lanes,
// sessions that train, and networks that have been trained.

import { AddNorm, type Initialization, INITIALIZATIONS, KernelError, KINDS } from 'addnorm';
import { type Arena, Instance } from 'addnorm/instance';
import { Lanes } from './lanes';

const BYTES = 256;

/** The norms' slots, and the factors. Each factor is named after a placement that has it. */
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

/** A row of the library's table of placements; factors are formulas. */
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

/** The tokens of one sentence: for each layer and the end, a value of every token, or of every two. */
export interface TokenMeasurement {
  tokens: number;
  loss: number;
  stream: Float64Array; // RMS
  gradient: Float64Array; // RMS of the loss's gradient
  cosine: Float64Array;
}

/** A pre-norm decoder with GELU and a tied head. */
export interface TrainedOptions {
  layers: number;
  width: number;
  heads: number;
  dFf: number;
  context: number;
  epsilon: number;
}

/** What is asked of a decoder that does without some sublayers, counted from 0 over all layers. */
export interface PredictionRequest {
  first: number; // of those that are skipped
  count: number;
  length: number; // bytes of the continuation at most
}

/** The stream of a prompt, at what each sublayer reads and, last, at what the network’s last leaves. */
export interface PromptMeasurement {
  stream: number[]; // RMS
  features: number[][]; // of each feature, over the tokens
  branch: number[]; // of what each sublayer adds
}

export interface Prediction {
  loss: number; // on the prompt's own bytes, in nats a byte
  next: Float64Array; // the probability of each byte after the prompt
  continuation: Uint8Array; // bytes after it, each the likeliest after those before
}

/** The page’s kernels. */
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

  /** A small decoder over bytes, as in `addnorm study`. All sessions share one instance; the first of
   * their calls that fails ends it, and with it all of them. */
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
      if (!isAlive()) throw new KernelError('the session ended with an earlier error');
      return this.#instance.call(body);
    };
    return {
      parameters: home.session_parameters(handle),
      unigramLoss: home.session_unigram_loss(handle),
      measure: () =>
        call((arena) => {
          const [stream, gradient, tokenCosine] = [1, 2, 3].map(() => arena.reserve(8 * places));
          const to = arena.struct('Measurement', { stream, gradient, tokenCosine });
          const loss = home.session_measure(handle, to);
          const values = (address: number) =>
            Array.from(arena.take(address, new Float64Array(places)));
          return {
            loss,
            stream: values(stream),
            gradient: values(gradient),
            tokenCosine: values(tokenCosine),
          };
        }),
      step: () => call(() => home.session_step(handle)),
      validate: (batches) => call(() => home.session_validate(handle, batches)),
      destroy: () => {
        if (isAlive()) home.session_destroy(handle);
      },
    };
  }

  /** Reads a text of context + 1 bytes once, forward and backward, with first weights. */
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

  /** What a decoder with these parameters makes of a prompt: the whole decoder’s stream, and a
   * prediction for each request. */
  readPrompt(
    options: TrainedOptions,
    parameters: ReadonlyMap<string, Float32Array>,
    prompt: Uint8Array,
    requests: readonly PredictionRequest[],
  ): { measurement: PromptMeasurement; predictions: Prediction[] } {
    return this.#instance.call((arena) => {
      const { exports } = arena;
      const decoder = exports.trained_create(arena.struct('TrainedOptions', { ...options }));
      for (const [name, values] of parameters) {
        const bytes = new TextEncoder().encode(name);
        exports.trained_set(
          decoder,
          arena.put(bytes),
          bytes.length,
          arena.put(values),
          values.length,
        );
      }
      const text = [arena.put(prompt), prompt.length];
      const measurement = this.#measurePrompt(arena, decoder, options, text);
      const predictions = requests.map((one) => this.#predict(arena, decoder, options, text, one));
      exports.trained_destroy(decoder);
      return { measurement, predictions };
    });
  }

  #measurePrompt(
    arena: Arena,
    decoder: number,
    { layers, width }: TrainedOptions,
    text: number[],
  ): PromptMeasurement {
    const places = 2 * layers + 1;
    const [stream, branch] = [1, 2].map(() => arena.reserve(8 * places));
    const features = arena.reserve(8 * places * width);
    const to = arena.struct('PromptMeasurement', { stream, branch, features });
    arena.exports.trained_measure(decoder, ...text, to);
    const values = (address: number, length: number) =>
      Array.from(arena.take(address, new Float64Array(length)));
    return {
      stream: values(stream, places),
      branch: values(branch, places - 1),
      features: Array.from({ length: places }, (_, i) => values(features + 8 * width * i, width)),
    };
  }

  #predict(
    arena: Arena,
    decoder: number,
    { context }: TrainedOptions,
    text: number[],
    request: PredictionRequest,
  ): Prediction {
    const { first, count } = request;
    const length = Math.min(request.length, context - text[1]);
    const [next, continuation] = [arena.reserve(8 * BYTES), arena.reserve(Math.max(1, length))];
    const to = arena.struct('PromptPrediction', { next, continuation, length });
    return {
      loss: arena.exports.trained_predict(decoder, ...text, first, count, to),
      next: arena.take(next, new Float64Array(BYTES)),
      continuation: arena.take(continuation, new Uint8Array(length)),
    };
  }

  /** The addresses of the structs Arrangement and SessionOptions. */
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

  /** The fields of the struct Arrangement. */
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
  readonly unigramLoss: number; // nats a byte that the bytes' frequencies alone give
  measure(): Measurement;
  step(): number; // one step of training; the loss before it, in nats a byte
  validate(batches: number): number;
  destroy(): void;
}
