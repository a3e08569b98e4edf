// The state of the chapter “The highway”.

import { INITIALIZATIONS } from 'addnorm';
import { choice, number, seed } from '../../state/fields';
import { defineState } from '../../state/store';

export const state = defineState('hw', {
  layers: number({ min: 2, max: 120, step: 1, initial: 24 }),
  width: choice(['16', '32', '64'], '32'),
  both: choice(['pre', 'post'], 'pre'),
  first: choice(INITIALIZATIONS, 'torch'),
  seed: seed(),
  scale: choice(['absolute', 'relative'], 'absolute'),
});
