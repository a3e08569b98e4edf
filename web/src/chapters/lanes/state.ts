// The state of the chapter on lanes.

import { answer, choice, flag, number, seed, vector } from '../../state/fields';
import { defineState } from '../../state/store';
import { ROW_NAMES } from './rows';

export const MOST_LANES = 4;
export const LIMIT = 9.99; // the largest absolute value of an own number

const bounds = { min: -LIMIT, max: LIMIT };

export const state = defineState('ln', {
  /** The two lanes by hand: the weights of lane 2, and the share that a lane takes from the other. */
  readTwo: number({ min: 0, max: 1, step: 0.05, initial: 0.5 }),
  writeTwo: number({ min: 0, max: 1, step: 0.05, initial: 0.4 }),
  mix: number({ min: 0, max: 0.5, step: 0.05, initial: 0.2 }),

  row: choice(ROW_NAMES, 'own'),
  lanes: choice(['2', '3', '4'], '4'),
  /** The reader's own numbers, for as many lanes as `read` has numbers. */
  read: vector([1, 0.5], { ...bounds, minLength: 1, maxLength: MOST_LANES }),
  carry: vector([0.8, 0.2, 0.2, 0.8], { ...bounds, minLength: 1, maxLength: MOST_LANES ** 2 }),
  write: vector([1, 0.4], { ...bounds, minLength: 1, maxLength: MOST_LANES }),
  sublayer: number({ min: 1, max: 4, step: 1, initial: 1 }),
  lanesAre: choice(['different', 'alike'], 'different'),
  values: seed(),

  layers: number({ min: 1, max: 12, step: 1, initial: 6 }),
  learned: choice(['start', 'moved'], 'start'),
  reader: number({ min: 1, max: 25, step: 1, initial: 12 }),
  source: number({ min: 0, max: 24, step: 1, initial: 3 }),

  guess: answer(['none', 'most', 'half', 'nothing']),
  depth: number({ min: 4, max: 48, step: 2, initial: 24 }),
  /** The share that each lane takes from the others in even mixing. */
  even: number({ min: 0, max: 0.5, step: 0.01, initial: 0.05 }),
  moved: flag(true),
  seed: seed(),

  differ: number({ min: 0, max: 1, step: 0.05, initial: 0 }),
  off: choice(['-1', '-3', '-8'], '-1'),
});
