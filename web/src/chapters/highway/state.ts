// What a reader can change in chapter 5.

import { INITIALIZATIONS } from 'addnorm';
import { choice, number } from '../../state/fields';
import { defineState } from '../../state/store';

export const LAYERS = { min: 2, max: 120, step: 1, initial: 24 };
export const WIDTHS = ['16', '32', '64'] as const;

export const state = defineState('hw', {
  layers: number(LAYERS),
  width: choice(WIDTHS, '32'),
  both: choice(['pre', 'post'], 'pre'),
  first: choice(INITIALIZATIONS, 'torch'),
  seed: number({ min: 0, max: 9999, step: 1, initial: 0 }),
  scale: choice(['absolute', 'relative'], 'absolute'),
});
