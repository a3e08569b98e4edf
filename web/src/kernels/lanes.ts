// Streams of several lanes, computed by the module: rows of the table, their numbers, one step.

import type { Arena, Instance } from 'addnorm/instance';

/** A row of the library's table of placements, as far as its stream goes. */
export interface LaneRow {
  row: number;
  name: string;
  usedBy: string;
  source: string;
  /** How many lanes it can have, unless its stream grows. */
  least: number;
  usual: number;
  most: number;
  grows: boolean;
  /** Where norms stand: before and on the output of F, after the sum on lane 1, on the last lane
   * before it is read. */
  before: boolean;
  inside: boolean;
  after: boolean;
  lastLane: boolean;
  formulas: { read: string; carry: string; write: string; exit: string };
}

/** z = read·X and X′ = carry·X + write ⊗ f. Matrices stand row by row. */
export interface LaneNumbers {
  lanes: number;
  lanesAfter: number;
  read: readonly number[];
  carry: readonly number[];
  write: readonly number[];
}

/** A stack's stream without its sublayers: of a row, or of numbers of one's own. */
export interface LaneStack {
  layers: number;
  row?: LaneRow;
  lanes?: number; // where the row leaves them free
  /** Whether learned numbers have moved, as in the lab's figures, and the seed of that. */
  moved?: boolean;
  seed?: number;
  /** The numbers of every sublayer, in place of a row's. */
  own?: LaneNumbers;
}

/** What each sublayer, and last the exit, reads of x and of each sublayer. null: not finite. */
export type Mixing = (number | null)[][];

/** What is left of a difference between lanes behind each sublayer, and by how much the product of all
 * A may amplify; empty where matrices alone do not carry the lanes. null: not finite. */
export interface Carried {
  left: (number | null)[];
  gain: (number | null)[];
}

export interface LaneGradients {
  carry: Float64Array; // Sinkhorn's, of the logits
  ofCarry: Float64Array;
  ofLogits: Float64Array;
}

export class Lanes {
  #instance: Instance;

  constructor(instance: Instance) {
    this.#instance = instance;
  }

  /** The rows whose stream theory covers. */
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

  /** What a sublayer reads, and what it leaves, of lanes of as many features as f has. */
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

  /** The gradient of A = Sinkhorn(logits), and of the logits, from that of X′ = A·X. */
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

/** Where a, A and b stand; 0 if there are none. */
function addresses(arena: Arena, numbers: LaneNumbers | undefined) {
  const put = (values: readonly number[]) => arena.put(Float64Array.from(values));
  if (numbers === undefined) return { read: 0, carry: 0, write: 0 };
  return { read: put(numbers.read), carry: put(numbers.carry), write: put(numbers.write) };
}
