// The state of the hero.

import { flag } from '../state/fields';
import { defineState } from '../state/store';

export const state = defineState('hero', { add: flag(true), norm: flag(true) });
