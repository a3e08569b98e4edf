// A trained network from its file, and its reading of a prompt.

import { KernelError } from 'addnorm';
import { type Arena, Instance } from 'addnorm/instance';
import { msg } from '../language/template';
import { parseSafetensors } from './safetensors';

const BYTES = 256;
const CONTINUATION = 32; // the bytes that the network adds to the prompt

/** A pre-norm decoder with GELU and a tied head. */
export interface TrainedOptions {
  layers: number;
  width: number;
  heads: number;
  dFf: number;
  context: number;
  epsilon: number;
}

/** A range of skipped sublayers, counted from 0 over all layers. */
export interface Skipped {
  first: number;
  count: number;
}

/** The stream of a prompt at the input of each sublayer and, last, at the network's output. */
export interface PromptMeasurement {
  stream: number[]; // RMS
  features: number[][]; // RMS of each feature over the tokens
  branch: number[]; // RMS of each sublayer's branch
}

export interface Prediction {
  loss: number; // in nats per byte, over the prompt's own bytes
  next: Float64Array; // the probability of each byte after the prompt
  continuation: Uint8Array; // the following bytes, each the likeliest one
}

/** A decoder with these parameters. It has its own instance of the module, whose memory is freed
 * with it. It is unusable after an error. */
export class TrainedDecoder {
  #instance: Instance;
  #home: Instance['exports']; // differs from the instance's exports after an error
  #handle: number;

  constructor(
    module: WebAssembly.Module,
    readonly options: TrainedOptions,
    parameters: ReadonlyMap<string, Float32Array>,
  ) {
    this.#instance = new Instance(module);
    this.#home = this.#instance.exports;
    this.#handle = this.#call((arena) =>
      arena.exports.trained_create(arena.struct('TrainedOptions', { ...options })),
    );
    for (const [name, values] of parameters) this.#set(new TextEncoder().encode(name), values);
  }

  #call<R>(body: (arena: Arena) => R): R {
    if (this.#home === this.#instance.exports) return this.#instance.call(body);
    throw new KernelError(msg`the decoder ended with an earlier error`);
  }

  #set(name: Uint8Array, values: Float32Array): void {
    this.#call((arena) => {
      const given = [arena.put(name), name.length, arena.put(values), values.length];
      arena.exports.trained_set(this.#handle, ...given);
    });
  }

  measure(prompt: Uint8Array): PromptMeasurement {
    const { layers, width } = this.options;
    const places = 2 * layers + 1;
    return this.#call((arena) => {
      const [stream, branch] = [1, 2].map(() => arena.reserve(8 * places));
      const features = arena.reserve(8 * places * width);
      const to = arena.struct('PromptMeasurement', { stream, branch, features });
      arena.exports.trained_measure(this.#handle, arena.put(prompt), prompt.length, to);
      return {
        stream: numbers(arena, stream, places),
        branch: numbers(arena, branch, places - 1),
        features: Array.from({ length: places }, (_, i) =>
          numbers(arena, features + 8 * width * i, width),
        ),
      };
    });
  }

  /** Predicts the byte after the prompt, and continues the prompt by at most `most` bytes. */
  predict(prompt: Uint8Array, { first, count }: Skipped, most: number): Prediction {
    const length = Math.min(most, this.options.context - prompt.length);
    return this.#call((arena) => {
      const [next, continuation] = [arena.reserve(8 * BYTES), arena.reserve(Math.max(1, length))];
      const to = arena.struct('PromptPrediction', { next, continuation, length });
      const text = [arena.put(prompt), prompt.length];
      return {
        loss: arena.exports.trained_predict(this.#handle, ...text, first, count, to),
        next: arena.take(next, new Float64Array(BYTES)),
        continuation: arena.take(continuation, new Uint8Array(length)),
      };
    });
  }
}

function numbers(arena: Arena, address: number, length: number): number[] {
  return Array.from(arena.take(address, new Float64Array(length)));
}

/** The architecture of the network, and its learned γ. */
export interface Network {
  layers: number;
  width: number;
  context: number;
  parameters: number;
  gammas: Float32Array[]; // of the norm before each sublayer, and of the final norm
}

export interface PromptReading extends PromptMeasurement {
  network: Network;
  whole: Prediction;
  withoutLayer: Prediction[];
  withoutSublayer: Prediction[];
  /** The predictions from the stream before the first layer and after each one. */
  lens: Prediction[];
}

/** Measures the network of this file on the prompt: complete, and without
 * each layer and each sublayer. */
export function readPrompt(
  module: WebAssembly.Module,
  file: ArrayBuffer,
  prompt: Uint8Array,
): PromptReading {
  const { metadata, values } = parseSafetensors(file);
  const options = optionsOf(metadata.config);
  const decoder = new TrainedDecoder(module, options, values);
  const withoutEach = (count: number, most: number) =>
    Array.from({ length: (2 * options.layers) / count }, (_, i) =>
      decoder.predict(prompt, { first: i * count, count }, most),
    );
  return {
    ...decoder.measure(prompt),
    network: networkOf(options, values),
    whole: decoder.predict(prompt, { first: 0, count: 0 }, CONTINUATION),
    withoutLayer: withoutEach(2, CONTINUATION),
    withoutSublayer: withoutEach(1, 0),
    lens: lensOf(decoder, prompt),
  };
}

/** The logit lens: where all later sublayers are skipped, the last norm and the head read the stream
 * after a layer. */
function lensOf(decoder: TrainedDecoder, prompt: Uint8Array): Prediction[] {
  const { layers } = decoder.options;
  return Array.from({ length: layers + 1 }, (_, l) =>
    decoder.predict(prompt, { first: 2 * l, count: 2 * (layers - l) }, 0),
  );
}

/** The options of the network, from the settings that `addnorm train` has
 * written next to the tensors. */
export function optionsOf(config: string): TrainedOptions {
  const { layers, width, heads, ff, context, eps, ...rest } = JSON.parse(config);
  const { placement, norm, activation, head } = rest;
  const kind = [placement, norm, activation, head].join(' ');
  if (kind !== 'pre layer gelu tied') throw new Error(`The network is ${kind}, which is not read.`);
  return { layers, width, heads, dFf: ff, context, epsilon: eps };
}

function networkOf({ layers, width, context }: TrainedOptions, values: Map<string, Float32Array>) {
  const all = [...values];
  const gammas = all.filter(([name]) => name.endsWith('.gamma')).map(([, gamma]) => gamma);
  const parameters = all.reduce((sum, [, { length }]) => sum + length, 0);
  return { layers, width, context, parameters, gammas };
}
