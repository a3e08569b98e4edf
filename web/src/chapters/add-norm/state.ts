// The state of the chapter “Add & Norm”.

import { flag, guess, number, vector } from '../../state/fields';
import { assign, defineState } from '../../state/store';
import { TOUR } from './tour-steps';

export const FEATURES = 5;
/** x and F(x) range from −1 to 1. */
export const LIMIT = 1;

const values = (initial: number[]) => vector(initial, { min: -LIMIT, max: LIMIT });

export const state = defineState('an', {
  x: values([0.8, -0.4, 0.3, -0.7, 0.5]),
  branch: values([0.2, 0.6, -0.5, -0.3, 0.9]),
  unstable: flag(false),
  residual: flag(true),
  /** The reader's guess of x̂ when F is multiplied by ten. */
  guess: guess(),
  gamma: number({ min: 0.1, max: 3, step: 0.1, initial: 1 }),
  beta: number({ min: -2, max: 2, step: 0.1, initial: 0 }),
  /** Whether γ = σ and β = μ, so that y is s again. */
  undone: flag(false),
  tour: number({ min: 0, max: TOUR.length, step: 1, initial: 0 }), // 0: no tour
});

/** Sets x and F(x) to random values, with two decimals so that links stay short. */
export function drawValues(random = Math.random): void {
  const draw = () =>
    Array.from({ length: FEATURES }, () => {
      return Math.round(100 * LIMIT * (2 * random() - 1)) / 100 + 0; // + 0 turns −0 into 0
    });
  assign(state, { x: draw(), branch: draw() });
}
