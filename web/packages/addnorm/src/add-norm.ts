// Typed functions that call the kernels in the WebAssembly module.

import { Block, type BlockOptions } from './block.js';
import { check, checkLike, checkValues } from './check.js';
import { type Arena, Instance, KernelError, type Values } from './instance.js';
import {
  type AddNormBackwardOptions,
  type AddNormOptions,
  type AddNormResult,
  BACKWARD_NAMES,
  FORWARD_NAMES,
  normCall,
  type NormCall,
  type NormGradients,
  type Statistics,
} from './norms.js';

/** The kernels of one instance of the module. All values of one call are either float32 or float64.
 * The results are new arrays of the same type. An invalid argument throws a KernelError that names
 * it; later calls are unaffected. */
export class AddNorm {
  #instance: Instance;

  constructor(readonly module: WebAssembly.Module) {
    const known = WebAssembly.Module.exports(module).some(
      ({ name }) => name === 'addnorm_add_norm_forward',
    );
    check(known, 'this WebAssembly module is not addnorm.wasm');
    this.#instance = new Instance(module);
  }

  /** y = γ·(x − mean)/√(variance + ε) + β for each row (Ba et al. 2016). */
  layerNorm<V extends Values>(x: V, options: Omit<AddNormOptions<V>, 'kind'>): V {
    return this.addNorm(x, null, ofKind('layer', options)).y;
  }

  /** The gradients of layerNorm with respect to x, γ and β, from dy, the gradient of its output. */
  layerNormBackward<V extends Values>(
    dy: V,
    x: V,
    options: Omit<AddNormBackwardOptions<V>, 'kind'>,
  ): NormGradients<V> {
    return this.#backward(dy, 'x', x, ofKind('layer', options));
  }

  /** y = γ·x/√(mean(x²) + ε) + β for each row (Zhang and Sennrich 2019). */
  rmsNorm<V extends Values>(x: V, options: Omit<AddNormOptions<V>, 'kind'>): V {
    return this.addNorm(x, null, ofKind('rms', options)).y;
  }

  /** The gradients of rmsNorm with respect to x, γ and β, from dy, the gradient of its output. */
  rmsNormBackward<V extends Values>(
    dy: V,
    x: V,
    options: Omit<AddNormBackwardOptions<V>, 'kind'>,
  ): NormGradients<V> {
    return this.#backward(dy, 'x', x, ofKind('rms', options));
  }

  /** s = x + branch and y = norm(s), in one pass, for any norm. Without a branch, s is x. */
  addNorm<V extends Values>(
    x: V,
    branch: V | null | undefined,
    options: AddNormOptions<V>,
  ): AddNormResult<V> {
    const call = normCall('x', x, options, FORWARD_NAMES);
    checkLike('branch', branch, x);
    checkLike('beta', options.beta, x, call.parameters);
    return this.#call((arena) => {
      const { sum, y, sets, shared } = forward(arena, call, x, { ...options, branch });
      return {
        y: arena.take(y, x),
        sum: branch ? arena.take(sum, x) : (x.slice() as V),
        statistics: statisticsOf(arena, shared.statistics, x, sets),
      };
    });
  }

  /** The gradients of addNorm with respect to s, γ and β, from dy, the gradient of y. x and the
   * branch both have the gradient dx of s:
   *    dx = dResidual + (g − mean(g) − x̂·mean(g·x̂))/deviation with g = γ·dy
   * (Xu et al. 2019, eq. 3–5). "rms" does not subtract mean(g). */
  addNormBackward<V extends Values>(
    dy: V,
    sum: V,
    options: AddNormBackwardOptions<V>,
  ): NormGradients<V> {
    return this.#backward(dy, 'sum', sum, options);
  }

  /** A Transformer block with its initial weights. */
  block(options: BlockOptions): Block {
    return new Block(this.module, options);
  }

  /** Calls the C interface. Removes the name of the C function from its error messages. */
  #call<R>(body: (arena: Arena) => R): R {
    try {
      return this.#instance.call(body);
    } catch (error) {
      throw new KernelError((error as KernelError).message.replace(/^[a-z_]+: /, ''));
    }
  }

  #backward<V extends Values>(
    dy: V,
    name: string,
    s: V,
    options: AddNormBackwardOptions<V>,
  ): NormGradients<V> {
    const call = normCall(name, s, options, BACKWARD_NAMES);
    checkValues('dy', dy);
    checkLike('dy', dy, s);
    checkLike('dResidual', options.dResidual, s);
    return this.#call((arena) => {
      const { x, shared } = forward(arena, call, s, options); // computes the statistics again
      const zero = new (s.constructor as new (n: number) => V)(call.parameters);
      const [dx, dGamma, dBeta] = [arena.like(s), arena.put(zero), arena.put(zero)];
      const [ofY, ofSum] = [arena.put(dy), arena.put(options.dResidual)];
      const args = { ...shared, s: x, dy: ofY, dResidual: ofSum, dx, dGamma, dBeta };
      arena.exports.addnorm_add_norm_backward(arena.struct('addnorm_add_norm_backward_args', args));
      return {
        dx: arena.take(dx, s),
        dGamma: arena.take(dGamma, zero),
        dBeta: arena.take(dBeta, zero),
      };
    });
  }
}

/** Runs addnorm_add_norm_forward. Returns the addresses of its values, and
 * the fields that backward shares. */
function forward<V extends Values>(
  arena: Arena,
  { norm: fields, rows, features, positions }: NormCall,
  values: V,
  given: { branch?: V | null; gamma?: V | null; beta?: V | null },
) {
  const norm = arena.struct('addnorm_norm_options', fields);
  const sizes = arena.reserve(8);
  arena.exports.addnorm_norm_sizes(norm, rows, features, positions, sizes, sizes + 4);
  const [sets, workspaceSize] = arena.take(sizes, new Uint32Array(2));
  const width = values.BYTES_PER_ELEMENT;
  const shared = {
    dtype: width === 8, // ADDNORM_F32 or ADDNORM_F64
    rows,
    features,
    positions,
    norm,
    gamma: arena.put(given.gamma),
    statistics: arena.reserve(sets * arena.instance.layout(statisticsType(values)).bytes),
    workspace: workspaceSize ? arena.reserve(workspaceSize * width) : 0,
    workspaceSize,
  };
  const [x, branch, beta] = [values, given.branch, given.beta].map((v) => arena.put(v));
  const [sum, y] = [branch ? arena.like(values) : 0, arena.like(values)];
  const args = { ...shared, 'add.x': x, 'add.branch': branch, sum, beta, y };
  arena.exports.addnorm_add_norm_forward(arena.struct('addnorm_add_norm_forward_args', args));
  return { x, sum, y, sets, shared };
}

function statisticsType(values: Values): string {
  return `addnorm_statistics_f${8 * values.BYTES_PER_ELEMENT}`;
}

/** Converts the module's statistics, which may be of scaled values, into
 * those of the values themselves. */
function statisticsOf<V extends Values>(
  arena: Arena,
  address: number,
  like: V,
  sets: number,
): Statistics<V> {
  const { bytes, fields } = arena.instance.layout(statisticsType(like));
  const width = like.BYTES_PER_ELEMENT;
  const all = arena.take(address, like, (sets * bytes) / width);
  const at = (set: number, field: string) => all[(set * bytes + fields[field][1]) / width];
  const each = (of: (set: number) => number) => all.subarray(0, sets).map((_, s) => of(s)) as V;
  return {
    mean: each((s) => (at(s, 'mean_hi') + at(s, 'mean_lo')) / at(s, 'scale')),
    variance: each((s) => at(s, 'variance') / at(s, 'scale') / at(s, 'scale')),
    deviation: each((s) => 1 / at(s, 'reciprocal') / at(s, 'scale')),
  };
}

/** Adds the kind of the norm to its options. */
function ofKind<O, K extends 'layer' | 'rms'>(kind: K, options: O): O & { kind: K } {
  check(!('kind' in Object(options)), `${kind}Norm has no option "kind"; addNorm has`);
  return { ...options, kind };
}
