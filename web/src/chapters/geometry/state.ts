// The state of the chapter “The geometry of LayerNorm”.

import { choice, guess, number, vector } from '../../state/fields';
import { defineState } from '../../state/store';

/** The largest absolute value of a feature of x, β and g. */
export const LIMIT = 3;

export const STEPS = ['x', 'centred', 'normalized', 'scaled', 'output'] as const;
export type Step = (typeof STEPS)[number];

export const state = defineState('ge', {
  x: vector([0.9, 0.5, -0.2], { min: -LIMIT, max: LIMIT }),
  gamma: vector([1.3, 0.8, 0.5], { min: 0, max: 2 }),
  beta: vector([0.4, 0.1, 0.6], { min: -LIMIT, max: LIMIT }),
  /** The last step shown. */
  step: choice(STEPS, 'normalized'),
  shifted: guess(),
  doubled: guess(),
  g: vector([0.6, 1.2, -0.9], { min: -LIMIT, max: LIMIT }),
  /** The view: its turn around the axis of feature 3, and its tilt from above. */
  turn: number({ min: -180, max: 180, step: 1, initial: -10 }),
  tilt: number({ min: -90, max: 90, step: 1, initial: 12 }),
});
