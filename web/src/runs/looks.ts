// The colour and dashes of a run, in every chart and in the list.

import { type Run, runs } from './feed';

const COLOURS = [1, 2, 3, 4, 5].map((i) => `var(--series-${i})`);
const DASHES = [undefined, '8 4', '2 3'];

/** The look by the run's number from the oldest, so that it does not change when new runs start. */
export function looksOf(run: Run) {
  const all = runs.value ?? [];
  const age = all.length - 1 - all.indexOf(run);
  return {
    name: run.name,
    colour: COLOURS[age % COLOURS.length],
    dash: DASHES[Math.floor(age / COLOURS.length) % DASHES.length],
  };
}
