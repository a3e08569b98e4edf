// The state of the chapter “Backward”.

import { choice, guess, number, vector } from '../../state/fields';
import { defineState } from '../../state/store';
import { TOKEN_NORMS } from '../../ui/names';

export const FEATURES = 6;
export const LIMIT = 3;

const values = (initial: number[]) => vector(initial, { min: -LIMIT, max: LIMIT });

export const state = defineState('bw', {
  x: values([1.2, -0.6, 0.4, 2, -1.4, 0.2]),
  dy: values([1, -0.5, 0.8, 0.6, 0.3, -1.2]),
  norm: choice(TOKEN_NORMS, 'layer'),
  guess: guess(),
  gamma: number({ min: 0.1, max: 3, step: 0.1, initial: 1 }),
  /** x is multiplied by 10 to this power. */
  size: number({ min: -1, max: 2, step: 0.1, initial: 0 }),
});
