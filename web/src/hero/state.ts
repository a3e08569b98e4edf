// The state of the hero.

import { flag, line } from '../state/fields';
import { defineState } from '../state/store';
import { BYTES, SENTENCE } from './stack';

export const state = defineState('hero', {
  add: flag(true),
  norm: flag(true),
  text: line(SENTENCE, BYTES),
});
