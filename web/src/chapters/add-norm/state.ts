// What a reader can change in chapter 1.

import { flag, number, vector } from '../../state/fields';
import { defineState } from '../../state/store';

export const FEATURES = 5;
export const GAMMA = { min: 0.1, max: 3, step: 0.1, initial: 1 };
export const BETA = { min: -2, max: 2, step: 0.1, initial: 0 };
/** Values are drawn, and dragged, from −1 to 1. */
export const LIMIT = 1;

const values = (initial: number[]) =>
  vector({ initial, minLength: FEATURES, maxLength: FEATURES, min: -LIMIT, max: LIMIT });

export const state = defineState('an', {
  x: values([0.8, -0.4, 0.3, -0.7, 0.5]),
  branch: values([0.2, 0.6, -0.5, -0.3, 0.9]),
  unstable: flag(false),
  residual: flag(true),
  gamma: number(GAMMA),
  beta: number(BETA),
});
