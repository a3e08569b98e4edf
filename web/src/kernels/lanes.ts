// Streams of several lanes, computed by the module: rows of the table, their numbers, and one step.

import type { Arena, Instance } from 'addnorm/instance';

/** The fields of a row of the library's table of placements that concern the stream. */
export interface LaneRow {
  row: number;
  name: string;
  usedBy: string;
  source: string;
  /** The least number of lanes, unless the stream grows. */
  least: number;
  usual: number;
  most: number;
  grows: boolean;
  /** The positions of the norms: before F, on its output, after the sum on lane 1, and on the last
   * lane before it is read. */
  before: boolean;
  inside: boolean;
  after: boolean;
  lastLane: boolean;
  formulas: { read: string; carry: string; write: string; exit: string };
}

/** z = read·X and X′ = carry·X + write ⊗ f. Matrices are stored row by row. */
export interface LaneNumbers {
  lanes: number;
  lanesAfter: number;
  read: readonly number[];
  carry: readonly number[];
  write: readonly number[];
}

/** The stream of a stack without its sublayers, with the numbers of a row or with own numbers. */
export interface LaneStack {
  layers: number;
  row?: LaneRow;
  lanes?: number; // if the row leaves them free
  /** Whether learned numbers have moved, as in the lab's figures, and the seed of the movement. */
  moved?: boolean;
  seed?: number;
  /** The numbers of every sublayer, instead of a row's. */
  own?: LaneNumbers;
}

/** The weights with which each sublayer, and last the exit, reads x and
 * each sublayer. null: not finite. */
export type Mixing = (number | null)[][];

/** The remaining part of a difference between lanes after each sublayer, and the largest gain of the
 * product of all A. Both are empty if matrices alone do not carry the lanes. null: not finite. */
export interface Carried {
  left: (number | null)[];
  gain: (number | null)[];
}

export interface LaneGradients {
  carry: Float64Array; // of the logits, by Sinkhorn
  ofCarry: Float64Array;
  ofLogits: Float64Array;
}

export class Lanes {
  #instance: Instance;

  constructor(instance: Instance) {
    this.#instance = instance;
  }

  /** The rows whose stream the theory covers. */
  rows(): LaneRow[] {
    return JSON.parse(this.#instance.text(this.#instance.exports.lane_rows()));
  }

  /** The numbers of each sublayer. */
  numbers(stack: LaneStack): LaneNumbers[] {
    return this.#ask('lane_numbers', stack);
  }

  mixing(stack: LaneStack): Mixing {
    return this.#ask('lane_mixing', stack);
  }

  carried(stack: LaneStack): Carried {
    return this.#ask('lanes_carried', stack);
  }

  #ask(name: string, { row, layers, lanes = 0, moved = false, seed = 0, own }: LaneStack) {
    return this.#instance.call((arena) => {
      const place = { row: row?.row ?? 0, lanes: own?.lanes ?? lanes, layers, moved, seed };
      const asked = arena.struct('LaneStack', { ...place, ...addresses(arena, own) });
      return JSON.parse(this.#instance.text(arena.exports[name](asked)));
    });
  }

  /** The input of a sublayer and the lanes after it. Each lane has as many features as f. */
  step(numbers: LaneNumbers, x: Float64Array, f: Float64Array) {
    const { lanes, lanesAfter } = numbers;
    const features = f.length;
    return this.#instance.call((arena) => {
      const z = arena.like(f);
      const next = arena.reserve(8 * lanesAfter * features);
      const sizes = { lanes, lanesAfter, features, x: arena.put(x), f: arena.put(f), z, next };
      arena.exports.lane_step(arena.struct('LaneStep', { ...sizes, ...addresses(arena, numbers) }));
      return {
        z: arena.take(z, f),
        next: arena.take(next, new Float64Array(lanesAfter * features)),
      };
    });
  }

  /** The gradients of A = Sinkhorn(logits) and of the logits, from the gradient of X′ = A·X. */
  gradient(logits: Float64Array, x: Float64Array, dNext: Float64Array): LaneGradients {
    const lanes = Math.sqrt(logits.length);
    return this.#instance.call((arena) => {
      const [carry, dCarry, dLogits] = [1, 2, 3].map(() => arena.like(logits));
      arena.exports.lane_gradient(
        arena.struct('LaneGradient', {
          lanes,
          features: x.length / lanes,
          x: arena.put(x),
          dNext: arena.put(dNext),
          logits: arena.put(logits),
          carry,
          dCarry,
          dLogits,
        }),
      );
      const [a, ofCarry, ofLogits] = [carry, dCarry, dLogits].map((at) => arena.take(at, logits));
      return { carry: a, ofCarry, ofLogits };
    });
  }
}

/** The addresses of a, A and b; 0 if there are none. */
function addresses(arena: Arena, numbers: LaneNumbers | undefined) {
  const put = (values: readonly number[]) => arena.put(Float64Array.from(values));
  if (numbers === undefined) return { read: 0, carry: 0, write: 0 };
  return { read: put(numbers.read), carry: put(numbers.carry), write: put(numbers.write) };
}
