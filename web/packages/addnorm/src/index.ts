// Residual connections and normalization of Transformers, forward and backward: the library addnorm as
// a WebAssembly module, behind typed functions.

import { AddNorm } from './add-norm.js';
import { compile, type Source } from './compile.js';

/** The kernels, ready for use. The module stands beside this file; where that is not to be had, say
 * which: a URL, bytes, or a compiled module. A KernelError where it cannot be loaded. */
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
