// The sentences of “The geometry of LayerNorm”, made from the numbers.

import { type Gradient, withoutRounding } from '../../kernels/gradient';
import type { TokenNorm } from '../../ui/names';
import { roundNumber } from '../../ui/numbers';
import { dot, length } from '../../ui/vectors';
import type { Moves } from './moves';
import type { Step } from './state';

const round = (v: number) => roundNumber(v, 3);

/** What the last of the steps that are drawn does. */
export function stepWords(kind: TokenNorm, moves: Moves, last: Step): string {
  return (kind === 'layer' ? layerWords : rmsWords)(moves)[last];
}

function layerWords({ x, mean, deviation, centred, normalized }: Moves): Record<Step, string> {
  return {
    x:
      `x is a point at distance ${round(length(x))} from 0. On the dashed line, along ` +
      '1 = (1, 1, 1), all three features are equal.',
    centred:
      `The mean μ = ${round(mean)} is taken from each feature. That is a projection along 1: x − μ ` +
      'lies in the plane through 0 where features sum to 0. How far x was along 1 is lost.',
    normalized:
      `x − μ is ${round(length(centred))} long. Divided by σ = ${round(deviation)} it is ` +
      `${round(length(normalized))} long, and so is every x̂ but for ε: √3, as the mean of three ` +
      'squares is 1. So x̂ lies on a circle. How far x was from the dashed line is lost.',
    scaled:
      'γ stretches each axis by its own factor. The circle becomes an ellipse, which lies in ' +
      'another plane.',
    output:
      'β moves the ellipse. Whatever x is, y lies on it: of three numbers one is left, a place on ' +
      'a closed curve.',
  };
}

function rmsWords({ x, deviation, normalized }: Moves): Record<Step, string> {
  return {
    x: 'The same x.',
    centred: 'RMSNorm takes no mean away, so x stays where it is.',
    normalized:
      `x is ${round(length(x))} long. Divided by σ, here its root mean square ${round(deviation)}, ` +
      `it is ${round(length(normalized))} long. So x̂ lies on a sphere. Only the length of x is lost.`,
    scaled: 'The sphere becomes an ellipsoid.',
    output:
      'β moves the ellipsoid; most models with RMSNorm have none. Of three numbers two are left, a ' +
      'place on a surface.',
  };
}

/** Where x is beside the line, and what is left of x̂. */
export function nearWords({ centred, normalized }: Moves): string {
  return (
    `Now x is ${round(length(centred))} from the dashed line, and LayerNorm’s x̂ is ` +
    `${round(length(normalized))} long.`
  );
}

/** What becomes of g. */
export function gradientWords(kind: TokenNorm, gradient: Gradient): string {
  const { g, alongOnes, alongNormalized, remainder, deviation, dx } = gradient;
  const whole = dot(g, g);
  if (whole === 0) return 'g is zero: there is nothing to send back.';
  const share = (part: readonly number[]) => {
    const kept = withoutRounding(part, g);
    return `${round((100 * dot(kept, kept)) / whole)} %`;
  };
  const removed =
    kind === 'layer'
      ? `${share(alongOnes)} lie along 1 and ${share(alongNormalized)} along x̂. Both are removed`
      : `${share(alongNormalized)} lie along x̂ and are removed`;
  const where = kind === 'layer' ? 'the circle' : 'the sphere';
  return (
    `Of |g|², ${removed}. What remains, ${share(remainder)}, is tangent to ${where}. Divided by ` +
    `σ = ${round(deviation)} it is dx, of length ${round(length(dx))}.`
  );
}
