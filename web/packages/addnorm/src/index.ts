// The library addnorm as a WebAssembly module behind typed functions: residual connections and
// normalization of Transformers, forward and backward.

import { AddNorm } from './add-norm.js';
import { compile, type Source } from './compile.js';

/** Loads the kernels from addnorm.wasm beside this file, or from a given URL, bytes or compiled
 * module. Throws a KernelError if the module cannot be loaded. */
export async function load(source?: Source): Promise<AddNorm> {
  return new AddNorm(await compile(source));
}

export { AddNorm };
export {
  Block,
  type BlockOptions,
  type FeedForward,
  type Initialization,
  INITIALIZATIONS,
  type BlockParameters,
} from './block.js';
export type { Source } from './compile.js';
export { KernelError, type Values } from './instance.js';
export {
  type AddNormBackwardOptions,
  type AddNormOptions,
  type AddNormResult,
  EPSILON_AT,
  type EpsilonAt,
  type Kind,
  KINDS,
  type NormGradients,
  type NormOptions,
  type Shape,
  type Statistics,
  type Variance,
  VARIANCES,
} from './norms.js';
