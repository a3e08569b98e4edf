// The steps of a norm as moves of a point, computed by the kernels.

import { addNormToken, normalizeToken } from '../../kernels/token';
import type { TokenNorm } from '../../ui/names';
import { length, mean } from '../../ui/vectors';
import { add, ONES, times, type Vector } from './space';

export interface Moves {
  kind: TokenNorm;
  x: Vector;
  mean: number; // the subtracted mean; 0 for RMSNorm
  deviation: number;
  centred: Vector;
  normalized: Vector;
  scaled: Vector; // γ ⊙ x̂
  output: Vector;
}

export function movesOf(kind: TokenNorm, x: Vector, gamma: Vector, beta: Vector): Moves {
  const { normalized, mean, deviation } = normalizeToken({ kind }, x);
  return {
    kind,
    x,
    mean,
    deviation,
    centred: x.map((v) => v - mean),
    normalized,
    scaled: addNormToken({ kind }, x, null, gamma, 0).output,
    output: addNormToken({ kind }, x, null, gamma, beta).output,
  };
}

/** The point at this distance from the line along 1, or for RMSNorm from 0, in the direction of x. */
export function near(kind: TokenNorm, x: Vector, distance: number): Vector {
  const centre = kind === 'layer' ? mean(x) : 0;
  const off = x.map((v) => v - centre);
  const size = length(off);
  const direction = size > 0 ? times(off, 1 / size) : [Math.SQRT1_2, -Math.SQRT1_2, 0];
  return add(times(ONES, centre), times(direction, distance));
}
