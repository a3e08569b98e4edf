// The route through the page: everything, or the chapters for a quarter of an hour.

import { choice } from './fields';
import { defineState } from './store';

/** The chapters of the short route. */
export const SHORT: readonly string[] = [
  'add-norm',
  'step-by-step',
  'highway',
  'placement',
  'quiz',
];

export const ROUTES = ['short', 'everything'] as const;

export const { route } = defineState('page', { route: choice(ROUTES, 'everything') });
