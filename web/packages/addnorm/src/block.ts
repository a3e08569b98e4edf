// A Transformer block.

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
  /** The number of attention heads; must divide dModel. */
  heads: number;
  dFf: number;
  /** The placement of the norms: "pre", "post", "sandwich", "deepnorm" or another
   * placement with one lane. "post/pre" uses one placement for attention and one for
   * feed-forward. The default is "pre". */
  placement?: string;
  /** The default is "gelu". */
  feedForward?: FeedForward;
  /** The norm of the sublayers, of kind "layer" or "rms". */
  norm?: NormOptions;
  /** The number of this layer, from 1, and the number of layers; some placements depend on them.
   * The default is 1 of 1. */
  layer?: number;
  layers?: number;
  /** "torch", the default, draws weights like PyTorch's nn.Linear. */
  initialization?: Initialization;
  /** The seed of the weights, as in torch.manual_seed. The default is 0. */
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

/** Values by parameter name, such as "attention.query.weight". */
export type BlockParameters = Record<string, Float32Array>;

/** Attention, then feed-forward, each within its Add & Norm, in float32. A block has its own
 * instance of the module, and disposing of the block frees that instance's memory. */
export class Block {
  /** The rows and columns of each parameter. A weight has one row per output; a vector is one row. */
  readonly shapes: Readonly<Record<string, readonly [rows: number, columns: number]>>;
  #dModel: number;
  #instance: Instance | undefined;
  #home: Instance['exports'] | undefined;
  #handle: number;
  #size = 0; // the number of values in the last forward

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

  /** Computes y for x, which has batch × length rows of dModel features, sequence by sequence.
   * Without a length, all rows are one sequence. With `causal`, no token attends to a later one. */
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

  /** The gradients of the last forward with respect to x and the
   * parameters, from dy, the gradient of y. */
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

  parameters(): BlockParameters {
    return this.#call((arena) => this.#copies(arena, 'block_value'));
  }

  /** Replaces the given parameters. */
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

  /** Frees the memory now instead of at garbage collection. */
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

/** The fields of ModuleBlockOptions without its norm, and the fields of the norm. */
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
