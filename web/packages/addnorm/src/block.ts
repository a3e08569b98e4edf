// One Transformer block.

import {
  check,
  checkCount,
  checkLike,
  checkNames,
  checkType,
  checkValues,
  placeOf,
} from './check.js';
import { type Arena, Instance } from './instance.js';
import { blockNormFields, type NormOptions } from './norms.js';

export const FEED_FORWARDS = [
  'relu',
  'gelu',
  'gelu-tanh',
  'swiglu',
  'geglu-tanh',
  'clamped-swiglu',
] as const;
export const INITIALIZATIONS = ['torch', 'xavier', 'gpt2'] as const;

export type FeedForward = (typeof FEED_FORWARDS)[number];
export type Initialization = (typeof INITIALIZATIONS)[number];

export interface BlockOptions {
  dModel: number;
  /** Must divide dModel. */
  heads: number;
  dFf: number;
  /** Where residual sum and norms stand: "pre", "post", "sandwich", "deepnorm" or another placement of
   * one lane; "post/pre": around attention and feed-forward. "pre" if left out. */
  placement?: string;
  /** "gelu" if left out. */
  feedForward?: FeedForward;
  /** Of kind "layer" or "rms". */
  norm?: NormOptions;
  /** Which layer of how many this is, from 1: some placements depend on it. 1 of 1 if left out. */
  layer?: number;
  layers?: number;
  /** "torch" draws as PyTorch's nn.Linear does; that if left out. */
  initialization?: Initialization;
  /** The weights are a function of it, PyTorch's after torch.manual_seed; 0 if left out. */
  seed?: number;
}

const NAMES: (keyof BlockOptions)[] = [
  'dModel',
  'heads',
  'dFf',
  'placement',
  'feedForward',
  'norm',
  'layer',
  'layers',
  'initialization',
  'seed',
];

/** Values by the parameters' names, such as "attention.query.weight". */
export type BlockParameters = Record<string, Float32Array>;

/** Attention, then feed-forward, each within its Add & Norm, in float32. It has an instance of the
 * module to itself, whose memory goes with it. */
export class Block {
  /** Rows and columns of each parameter. A weight has one row for each output, a vector one row. */
  readonly shapes: Readonly<Record<string, readonly [rows: number, columns: number]>>;
  #dModel: number;
  #instance: Instance | undefined;
  #home: Instance['exports'] | undefined;
  #handle: number;
  #size = 0; // of the last forward

  constructor(module: WebAssembly.Module, options: BlockOptions) {
    const { fields, norm } = blockFields(options);
    const placement = new TextEncoder().encode(options.placement ?? 'pre');
    const instance = new Instance(module);
    this.#handle = instance.call((arena) => {
      const all = { ...fields, norm: arena.struct('addnorm_norm_options', norm) };
      const o = arena.struct('ModuleBlockOptions', all);
      return arena.exports.block_create(o, arena.put(placement), placement.length);
    });
    this.shapes = JSON.parse(instance.text(instance.exports.block_shapes(this.#handle)));
    this.#dModel = options.dModel;
    this.#instance = instance;
    this.#home = instance.exports;
  }

  /** y for x of batch × length rows of dModel features, sequence by sequence. All rows are one
   * sequence if no length is given; with `causal` no token sees a later one. */
  forward(x: Float32Array, options: { length?: number; causal?: boolean } = {}): Float32Array {
    checkNames(options, ['length', 'causal']);
    checkValues('x', x);
    checkLike('x', x, new Float32Array(), x.length);
    const rows = x.length / this.#dModel;
    const { length = rows, causal = false } = options;
    check(Number.isInteger(rows), `x has ${x.length} values, must have rows of ${this.#dModel}`);
    checkCount('length', length);
    check(rows % length === 0, `x has ${rows} rows, must have sequences of ${length}`);
    checkType('causal', causal, 'boolean');
    this.#size = 0;
    return this.#call((arena) => {
      const y = arena.like(x);
      const order = Number(causal);
      arena.exports.block_forward(this.#handle, rows / length, length, order, arena.put(x), y);
      this.#size = x.length;
      return arena.take(y, x);
    });
  }

  /** The gradients of the last forward's x and of the parameters, from dy, that of its y. */
  backward(dy: Float32Array): { dx: Float32Array; gradients: BlockParameters } {
    check(this.#size > 0, 'backward needs a forward before it');
    checkValues('dy', dy);
    checkLike('dy', dy, new Float32Array(), this.#size);
    return this.#call((arena) => {
      const dx = arena.like(dy);
      arena.exports.block_backward(this.#handle, arena.put(dy), dx);
      return { dx: arena.take(dx, dy), gradients: this.#copies(arena, 'block_gradient') };
    });
  }

  /** Copies of the parameters. */
  parameters(): BlockParameters {
    return this.#call((arena) => this.#copies(arena, 'block_value'));
  }

  /** Replaces the parameters that are named. */
  setParameters(values: BlockParameters): void {
    const names = Object.keys(this.shapes);
    checkNames(values, names);
    for (const [name, given] of Object.entries(values)) {
      checkValues(name, given);
      checkLike(name, given, new Float32Array(), this.#count(name));
    }
    this.#call((arena) => {
      for (const [name, given] of Object.entries(values)) {
        arena.write(arena.exports.block_value(this.#handle, names.indexOf(name)), given);
      }
    });
  }

  /** Lets the memory go now, and not only when the block is out of reach. */
  dispose(): void {
    this.#instance = this.#home = undefined;
  }

  #call<R>(body: (arena: Arena) => R): R {
    check(this.#instance, 'the block was disposed of');
    check(this.#instance.exports === this.#home, 'the block ended with an earlier error');
    return this.#instance.call(body);
  }

  #copies(arena: Arena, of: 'block_value' | 'block_gradient'): BlockParameters {
    const copy = (name: string, i: number) => {
      const address = arena.exports[of](this.#handle, i);
      return [name, arena.take(address, new Float32Array(), this.#count(name))];
    };
    return Object.fromEntries(Object.keys(this.shapes).map(copy));
  }

  #count(name: string): number {
    const [rows, columns] = this.shapes[name];
    return rows * columns;
  }
}

/** The fields of ModuleBlockOptions but for its norm, and those of the norm. */
function blockFields(o: BlockOptions) {
  checkNames(o, NAMES);
  const { dModel, heads, dFf, layer = 1, layers = 1, seed = 0 } = o;
  for (const [name, value] of Object.entries({ dModel, heads, dFf, layer, layers })) {
    checkCount(name, value);
  }
  checkCount('seed', seed, 0);
  checkType('placement', o.placement ?? 'pre', 'string');
  check(layer <= layers, `layer is ${layer}, must be one of ${layers}`);
  check(dModel % heads === 0, `heads is ${heads}, must divide dModel, which is ${dModel}`);
  const feedForward = placeOf('feedForward', o.feedForward ?? 'gelu', FEED_FORWARDS);
  const initialization = placeOf('initialization', o.initialization ?? 'torch', INITIALIZATIONS);
  const fields = { dModel, heads, dFf, feedForward, layer, layers, initialization, seed };
  return { fields, norm: blockNormFields(o.norm ?? {}) };
}
