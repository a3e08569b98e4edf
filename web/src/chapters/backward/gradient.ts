// The gradient through a norm, and what it is made of.

import { kernels } from '../../kernels/current';
import type { Values } from '../../kernels/instance';
import type { TokenNorm } from '../../ui/norms';
import { length } from '../../ui/vectors';

export interface Gradient {
  x: number[];
  normalized: number[];
  mean: number;
  deviation: number;
  g: number[]; // γ ⊙ dy
  alongOnes: number[]; // mean(g): what centring projects away
  alongNormalized: number[]; // x̂·mean(g ⊙ x̂): what scaling projects away
  remainder: number[];
  dx: number[];
  dGamma: number[];
  dBeta: number[];
}

export function gradientOf(
  kind: TokenNorm,
  x: readonly number[],
  gamma: number,
  dy: readonly number[],
): Gradient {
  const shape = { samples: 1, channels: x.length };
  const input = {
    x: Float64Array.from(x),
    gamma: new Float64Array(x.length).fill(gamma),
    dy: Float64Array.from(dy),
  };
  const forward = kernels.norm({ kind }, shape, input);
  const backward = kernels.normBackward({ kind }, shape, input);
  const { mean, deviation } = forward.statistics[0];
  const normalized = plain(forward.normalized);
  const g = dy.map((v) => gamma * v);
  const meanG = kind === 'layer' ? meanOf(g) : 0;
  const meanGX = meanOf(g.map((v, i) => v * normalized[i]));
  const alongNormalized = normalized.map((v) => v * meanGX);
  return {
    x: [...x],
    normalized,
    mean,
    deviation,
    g,
    alongOnes: g.map(() => meanG),
    alongNormalized,
    remainder: g.map((v, i) => v - meanG - alongNormalized[i]),
    dx: plain(backward.dx),
    dGamma: plain(backward.dGamma),
    dBeta: plain(backward.dBeta),
  };
}

/** 0 for what is only rounding beside values as large as g ÷ divisor. */
export function withoutRounding(
  values: readonly number[],
  g: readonly number[],
  divisor = 1,
): number[] {
  const least = (1e-12 * length(g)) / divisor;
  return values.map((v) => (Math.abs(v) < least ? 0 : v));
}

function meanOf(values: readonly number[]): number {
  return values.reduce((sum, v) => sum + v, 0) / values.length;
}

function plain(values: Values): number[] {
  return Array.from(values);
}
