// What a visitor can switch in the hero.

import { flag } from '../state/fields';
import { defineState } from '../state/store';

export const state = defineState('hero', { add: flag(true), norm: flag(true) });
