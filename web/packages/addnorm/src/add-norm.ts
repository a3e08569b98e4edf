// The kernels behind typed functions.

import { Block, type BlockOptions } from './block.js';
import { check, checkLike, checkValues } from './check.js';
import { Instance, type Values } from './instance.js';
import {
  type AddNormBackwardOptions,
  type AddNormOptions,
  type AddNormResult,
  BACKWARD_NAMES,
  FORWARD_NAMES,
  normCall,
  type NormGradients,
} from './norms.js';

/** The kernels of one instance of the module. Values are float32 or float64: those of one call have
 * one type, and so have its results, which are new arrays. A KernelError says in a sentence which
 * argument cannot be used; the next call works all the same. */
export class AddNorm {
  #instance: Instance;

  constructor(readonly module: WebAssembly.Module) {
    const known = WebAssembly.Module.exports(module).some(
      ({ name }) => name === 'norm_forward_f32',
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
    const { choice, dimensions, parameters } = normCall('x', x, options, FORWARD_NAMES);
    checkLike('branch', branch, x);
    checkLike('beta', options.beta, x, parameters);
    return this.#instance.call((arena) => {
      const form = arena.put(choice);
      const sets = arena.exports.norm_sets(form, ...dimensions);
      const [sum, y] = [arena.like(x), arena.like(x)];
      const statistics = arena.reserve(3 * sets * x.BYTES_PER_ELEMENT);
      arena.exports[`norm_forward_${suffix(x)}`](
        form,
        ...dimensions,
        arena.put(x),
        arena.put(branch),
        arena.put(options.gamma),
        arena.put(options.beta),
        sum,
        y,
        statistics,
      );
      const [mean, variance, deviation] = [0, 1, 2].map((i) =>
        arena.take(statistics + i * sets * x.BYTES_PER_ELEMENT, x, sets),
      );
      return {
        y: arena.take(y, x),
        sum: branch ? arena.take(sum, x) : (x.slice() as V),
        statistics: { mean, variance, deviation },
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

  #backward<V extends Values>(
    dy: V,
    name: string,
    s: V,
    options: AddNormBackwardOptions<V>,
  ): NormGradients<V> {
    const { choice, dimensions, parameters } = normCall(name, s, options, BACKWARD_NAMES);
    checkValues('dy', dy);
    checkLike('dy', dy, s);
    checkLike('dResidual', options.dResidual, s);
    return this.#instance.call((arena) => {
      const zero = new (s.constructor as new (n: number) => V)(parameters);
      const [dx, dGamma, dBeta] = [arena.like(s), arena.put(zero), arena.put(zero)];
      arena.exports[`norm_backward_${suffix(s)}`](
        arena.put(choice),
        ...dimensions,
        arena.put(s),
        arena.put(options.gamma),
        arena.put(dy),
        arena.put(options.dResidual),
        dx,
        dGamma,
        dBeta,
      );
      return {
        dx: arena.take(dx, s),
        dGamma: arena.take(dGamma, zero),
        dBeta: arena.take(dBeta, zero),
      };
    });
  }
}

/** The options of a norm whose name says its kind. */
function ofKind<O, K extends 'layer' | 'rms'>(kind: K, options: O): O & { kind: K } {
  check(!('kind' in Object(options)), `${kind}Norm has no option "kind"; addNorm has`);
  return { ...options, kind };
}

function suffix(values: Values): 'f32' | 'f64' {
  return values.BYTES_PER_ELEMENT === 4 ? 'f32' : 'f64';
}
