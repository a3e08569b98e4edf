// What a reader can change in chapter 4.

import { KINDS } from 'addnorm';
import { choice, number } from '../../state/fields';
import { defineState } from '../../state/store';

export const SAMPLES = { min: 1, max: 8, step: 1, initial: 4 };
export const CHANNELS = ['2', '4', '6', '8'] as const;
export const POSITIONS = ['1', '2', '4'] as const;
export const GROUPS = ['1', '2', '3', '4', '6', '8'] as const;

const seed = () => number({ min: 0, max: 9999, step: 1, initial: 0 });

export const state = defineState('ax', {
  kind: choice(KINDS, 'layer'),
  samples: number(SAMPLES),
  channels: choice(CHANNELS, '6'),
  positions: choice(POSITIONS, '1'),
  groups: choice(GROUPS, '2'),
  /** Of the first sample, and of the others together. */
  seed: seed(),
  others: seed(),
  /** The cell that was chosen last, from 1. */
  row: number({ min: 1, max: SAMPLES.max, step: 1, initial: 1 }),
  column: number({ min: 1, max: 32, step: 1, initial: 3 }),
});
