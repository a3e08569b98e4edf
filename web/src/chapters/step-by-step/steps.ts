// The steps of one vector, computed by the kernels.

import { KernelError, type NormOptions } from 'addnorm';
import { normalizeToken } from '../../kernels/token';
import { t } from '../../language/text';
import type { TokenNorm } from '../../ui/names';
import { largestDifference } from '../../ui/vectors';

export interface Steps {
  x: readonly number[];
  mean: number;
  variance: number; // without ε; the mean square for RMSNorm
  deviation: number; // with ε
  centred: number[]; // x − mean
  normalized: number[];
  /** Whether the variance can be shown: the squares of float64 values may overflow or underflow. */
  varianceIs: 'shown' | 'too large' | 'too small';
}

/** The steps, or the kernels' error message. */
export function takeSteps(options: NormOptions, x: readonly number[]): Steps | string {
  try {
    const { normalized, mean, variance, deviation } = normalizeToken(options, x);
    const centred = x.map((v) => v - mean);
    const spread = centred.some((v) => v !== 0);
    return {
      x,
      mean,
      variance,
      deviation,
      centred,
      normalized,
      varianceIs:
        variance === Infinity ? 'too large' : variance === 0 && spread ? 'too small' : 'shown',
    };
  } catch (error) {
    if (!(error instanceof KernelError)) throw error;
    return error.message.replace(/^\w+: /, '');
  }
}

export interface Measured {
  mean: number;
  deviation: number;
  rms: number;
}

/** Mean, standard deviation and root mean square, without ε. */
export function measure(values: readonly number[], options: NormOptions): Measured {
  const of = (kind: TokenNorm) => {
    const variance = kind === 'layer' ? options.variance : 'population';
    return normalizeToken({ kind, variance, epsilon: 0 }, values);
  };
  const { mean, deviation } = of('layer');
  return { mean, deviation, rms: of('rms').deviation };
}

/** The largest change of any feature of x̂ when `change` is applied to x. */
export function changeOfNormalized(
  options: NormOptions,
  { x, normalized }: Steps,
  change: (v: number) => number,
): number {
  const changed = takeSteps(options, x.map(change)) as Steps;
  return largestDifference(changed.normalized, normalized);
}

/** Remarks on special properties of this vector. */
export function remarks(options: NormOptions, steps: Steps): string[] {
  const { x, variance, normalized, varianceIs } = steps;
  const layer = options.kind === 'layer';
  const epsilon = options.epsilon!;
  const found: string[] = [];
  if (normalized.some(Number.isNaN)) {
    return [
      t`The deviation is 0 and ε is 0: 0 ÷ 0 is not a number (NaN). ε is there to prevent this.`,
    ];
  }
  if (x.length === 1) {
    found.push(
      layer
        ? t`A single value equals its mean, so x̂ is 0 for every value. A norm needs several features.`
        : t`The RMS of a single value is its absolute value, so x̂ is just its sign, made slightly smaller by ε.`,
    );
  } else if (layer && x.every((v) => v === x[0])) {
    found.push(
      t`All values are equal: all deviations from the mean are 0, so x̂ is 0 everywhere. Without ε
        it would be 0 ÷ 0.`,
    );
  } else if (!layer && x.every((v) => v === 0)) {
    found.push(t`All values are 0, so x̂ is 0. Without ε it would be 0 ÷ 0.`);
  }
  if (varianceIs === 'too large') {
    found.push(
      t`The variance is too large for a 64-bit number. The kernels scale the values by a power of
        two before they square them, so the deviation is still correct.`,
    );
  } else if (varianceIs === 'too small') {
    found.push(t`The variance is too small for a 64-bit number and shows as 0.`);
  }
  const data = options.epsilonAt === 'variance' ? variance : Math.sqrt(variance);
  if (normalized.some((v) => v !== 0) && epsilon > data) {
    found.push(
      t`Here ε is larger than the contribution of the values, so ε determines σ, and x̂ is small.`,
    );
  }
  return found;
}
