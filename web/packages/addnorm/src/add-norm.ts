// The kernels behind typed functions.

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

/** The kernels of one instance of the module. Values are float32 or float64: those of one call have
 * one type, and so have its results, which are new arrays. A KernelError says in a sentence which
 * argument cannot be used; the next call works all the same. */
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

  /** The gradients of layerNorm's x, γ and β from dy, that of its output. */
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

  /** The gradients of rmsNorm's x, γ and β from dy, that of its output. */
  rmsNormBackward<V extends Values>(
    dy: V,
    x: V,
    options: Omit<AddNormBackwardOptions<V>, 'kind'>,
  ): NormGradients<V> {
    return this.#backward(dy, 'x', x, ofKind('rms', options));
  }

  /** s = x + branch and y = norm(s), in one pass, by any norm. Without a branch s is x. */
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

  /** The gradients of addNorm's s, γ and β from dy, that of y. dx is that of x and of the branch:
   *    dx = dResidual + (g − mean(g) − x̂·mean(g·x̂))/deviation with g = γ·dy
   * (Xu et al. 2019, eq. 3–5); "rms" takes no mean(g) away. */
  addNormBackward<V extends Values>(
    dy: V,
    sum: V,
    options: AddNormBackwardOptions<V>,
  ): NormGradients<V> {
    return this.#backward(dy, 'sum', sum, options);
  }

  /** One Transformer block with its first weights. */
  block(options: BlockOptions): Block {
    return new Block(this.module, options);
  }

  /** Calls the C interface. Its messages begin with the name of a C function; the caller's is another. */
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
      const { x, shared } = forward(arena, call, s, options); // for its statistics
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

/** Runs addnorm_add_norm_forward: where its values stand, and the fields that backward has as well. */
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

/** What users know of the statistics: those of the values themselves, which may have been scaled. */
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

/** The options of a norm whose name says its kind. */
function ofKind<O, K extends 'layer' | 'rms'>(kind: K, options: O): O & { kind: K } {
  check(!('kind' in Object(options)), `${kind}Norm has no option "kind"; addNorm has`);
  return { ...options, kind };
}
