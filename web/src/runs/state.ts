// The state of the page of runs.

import { choice, type Field, number } from '../state/fields';
import { defineState } from '../state/store';

/** Stands for the running and the newest runs, instead of their names. */
export const NEWEST = '*';

/** Names of runs, which may contain commas. */
const names: Field<readonly string[]> = {
  initial: [NEWEST],
  write: (values) =>
    values.map((name) => name.replaceAll('%', '%25').replaceAll(',', '%2C')).join(),
  read: (text) =>
    text.split(',').flatMap((name) => name.replaceAll('%2C', ',').replaceAll('%25', '%') || []),
};

export const LAST_STEP = 1e9;

export const state = defineState('runs', {
  shown: names,
  smoothing: number({ min: 0, max: 0.99, step: 0.01, initial: 0.9 }),
  scale: choice(['linear', 'logarithmic'], 'linear'),
  /** The profiled step; by default the last one. */
  profiled: number({ min: 0, max: LAST_STEP, step: 1, initial: LAST_STEP }),
});
