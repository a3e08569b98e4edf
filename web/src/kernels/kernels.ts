// The library's kernels: the WebAssembly module behind typed functions. The order of the options
// here is that of apps/wasm/tutorial.cc and session.h.

import { type Arena, Instance, KernelError, type Values } from './instance';

export const KINDS = ['layer', 'rms', 'batch', 'instance', 'group'] as const;
export const EPSILON_AT = ['variance', 'deviation'] as const;
export const VARIANCES = ['population', 'unbiased'] as const;
const GAMMA_FORMS = ['plain', 'one plus'] as const;
export const INITIALIZATIONS = ['torch', 'xavier', 'gpt2'] as const;

export type Kind = (typeof KINDS)[number];
export type EpsilonAt = (typeof EPSILON_AT)[number];
export type Variance = (typeof VARIANCES)[number];
export type Initialization = (typeof INITIALIZATIONS)[number];

/** A norm as data; what is left out is as in the library: LayerNorm, ε = 1e-5 under the root. */
export interface NormOptions {
  kind?: Kind;
  epsilon?: number;
  epsilonAt?: EpsilonAt;
  variance?: Variance;
  gammaForm?: (typeof GAMMA_FORMS)[number];
  groups?: number;
}

/** An (N, C, S) tensor; layer and RMS norms see N rows of C·S features. */
export interface Shape {
  samples: number;
  channels: number;
  positions?: number;
}

export interface NormInput<V extends Values> {
  x: V;
  branch?: V; // absent: s = x
  gamma?: V; // absent: 1
  beta?: V; // absent: 0
}

export interface Statistics {
  mean: number;
  variance: number; // without ε
  deviation: number; // with ε
}

export interface NormOutput<V extends Values> {
  sum: V; // s = x + branch
  normalized: V; // x̂ = (s − mean)/deviation
  output: V; // γ·x̂ + β
  statistics: Statistics[]; // one for each set of values that is normalized together
}

export interface NormGradients<V extends Values> {
  dx: V;
  dGamma: V;
  dBeta: V;
}

/** Where residual sum and norms stand: slots, and the placements that have these factors. */
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

/** Of the residual stream at initialization: what layer l reads, last what the last one leaves. */
export interface Measurement {
  loss: number;
  stream: number[]; // RMS
  gradient: number[]; // RMS of the loss's gradient
  tokenCosine: number[];
}

/** The kernels of one instance of the module. */
export class Kernels {
  #instance: Instance;

  constructor(readonly module: WebAssembly.Module) {
    this.#instance = new Instance(module);
  }

  /** s = x + branch, x̂ and γ·x̂ + β, with the statistics. */
  norm<V extends Values>(options: NormOptions, shape: Shape, input: NormInput<V>): NormOutput<V> {
    return this.#instance.call((arena) => {
      const choice = arena.put(normChoice(options));
      const dims = dimensions(shape);
      const sets = arena.exports.norm_sets(choice, ...dims);
      const forward = arena.exports[`norm_forward_${suffix(input.x)}`];
      const [x, branch] = [arena.put(input.x), arena.put(input.branch)];
      const [gamma, beta] = [arena.put(input.gamma), arena.put(input.beta)];
      const sum = arena.like(input.x);
      const normalized = arena.like(input.x);
      const output = arena.like(input.x);
      const statistics = arena.reserve(24 * sets);
      const affine = gamma !== 0 || beta !== 0;
      forward(choice, ...dims, x, branch, 0, 0, sum, normalized, statistics);
      if (affine) forward(choice, ...dims, x, branch, gamma, beta, sum, output, 0);
      return {
        sum: input.branch === undefined ? copy(input.x) : arena.take(sum, input.x),
        normalized: arena.take(normalized, input.x),
        output: arena.take(affine ? output : normalized, input.x),
        statistics: statisticsOf(arena.take(statistics, new Float64Array(3 * sets))),
      };
    });
  }

  /** The gradients of x, γ and β from dy, that of the norm's output. */
  normBackward<V extends Values>(
    options: NormOptions,
    shape: Shape,
    input: { x: V; gamma?: V; dy: V },
  ): NormGradients<V> {
    return this.#instance.call((arena) => {
      const ofRows = options.kind === 'layer' || options.kind === 'rms' || !options.kind;
      const parameters = ofRows ? shape.channels * (shape.positions ?? 1) : shape.channels;
      const zero = new (input.x.constructor as new (n: number) => V)(parameters);
      const dx = arena.like(input.x);
      const [dGamma, dBeta] = [arena.put(zero), arena.put(zero)];
      arena.exports[`norm_backward_${suffix(input.x)}`](
        arena.put(normChoice(options)),
        ...dimensions(shape),
        arena.put(input.x),
        arena.put(input.gamma),
        arena.put(input.dy),
        dx,
        dGamma,
        dBeta,
      );
      return {
        dx: arena.take(dx, input.x),
        dGamma: arena.take(dGamma, zero),
        dBeta: arena.take(dBeta, zero),
      };
    });
  }

  /** The library's table of placements. */
  placements(): Placement[] {
    const lines = this.#instance.text(this.#instance.exports.placement_lines());
    return lines.trimEnd().split('\n').map(placementOf);
  }

  /** A small decoder over bytes, as `addnorm study` trains them. It ends with the instance that it
   * lives in: with the first call that fails. */
  session(arrangement: Arrangement, options: SessionOptions, text: Uint8Array): Session {
    const choice = this.#arrangement(arrangement);
    const handle = this.#instance.call((arena) =>
      arena.exports.session_create(
        arena.put(choice),
        arena.put(sessionChoice(options)),
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
          const memory = arena.reserve(24 * places);
          const loss = home.session_measure(handle, memory);
          const values = Array.from(arena.take(memory, new Float64Array(3 * places)));
          return {
            loss,
            stream: values.slice(0, places),
            gradient: values.slice(places, 2 * places),
            tokenCosine: values.slice(2 * places),
          };
        }),
      step: () => call(() => home.session_step(handle)),
      validate: (batches) => call(() => home.session_validate(handle, batches)),
      destroy: () => {
        if (isAlive()) home.session_destroy(handle);
      },
    };
  }

  #arrangement(a: Arrangement): Float64Array {
    const names = this.placements().map((p) => p.name);
    const flags = [a.before, a.inside, a.after].map(Number);
    const rows = [a.skip, a.gain, a.beforeScale, a.initialGain].map((name) => names.indexOf(name));
    return Float64Array.from([...flags, ...rows, Number(a.finalNorm)]);
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

function suffix(values: Values): 'f32' | 'f64' {
  return values instanceof Float32Array ? 'f32' : 'f64';
}

function copy<V extends Values>(values: V): V {
  return values.slice() as V;
}

function dimensions(shape: Shape): [number, number, number] {
  return [shape.samples, shape.channels, shape.positions ?? 1];
}

function normChoice(o: NormOptions): Float64Array {
  return Float64Array.from([
    KINDS.indexOf(o.kind ?? 'layer'),
    o.epsilon ?? 1e-5,
    EPSILON_AT.indexOf(o.epsilonAt ?? 'variance'),
    VARIANCES.indexOf(o.variance ?? 'population'),
    GAMMA_FORMS.indexOf(o.gammaForm ?? 'plain'),
    o.groups ?? 1,
  ]);
}

function sessionChoice(o: SessionOptions): Float64Array {
  return Float64Array.from([
    o.layers,
    o.width,
    o.heads,
    o.context,
    o.batch,
    o.learningRate,
    o.warmUp,
    o.seed,
    INITIALIZATIONS.indexOf(o.initialization),
    KINDS.indexOf(o.norm),
  ]);
}

function statisticsOf(values: Float64Array): Statistics[] {
  return Array.from({ length: values.length / 3 }, (_, i) => ({
    mean: values[3 * i],
    variance: values[3 * i + 1],
    deviation: values[3 * i + 2],
  }));
}

function placementOf(line: string): Placement {
  const cells = line.split('\t');
  const [name, usedBy, before, inside, after, skip, gain, beforeScale, initialGain, final] = cells;
  return {
    name,
    usedBy,
    before: before === '1',
    inside: inside === '1',
    after: after === '1',
    skip: name,
    gain: name,
    beforeScale: name,
    initialGain: name,
    finalNorm: final === '1',
    formulas: { skip, gain, beforeScale, initialGain },
  };
}
