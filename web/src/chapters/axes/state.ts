// The state of the chapter “Which axes”.

import { KINDS } from 'addnorm';
import { choice, guess, number, seed } from '../../state/fields';
import { defineState } from '../../state/store';

const SAMPLES = { min: 1, max: 8, step: 1, initial: 4 };

export const state = defineState('ax', {
  kind: choice(KINDS, 'layer'),
  samples: number(SAMPLES),
  channels: choice(['2', '4', '6', '8'], '6'),
  positions: choice(['1', '2', '4'], '1'),
  groups: choice(['1', '2', '3', '4', '6', '8'], '2'),
  guess: guess(),
  /** The seeds of the first sample and of all other samples. */
  seed: seed(),
  others: seed(),
  /** The last chosen cell, counted from 1. */
  row: number({ min: 1, max: SAMPLES.max, step: 1, initial: 1 }),
  column: number({ min: 1, max: 32, step: 1, initial: 3 }),
});
