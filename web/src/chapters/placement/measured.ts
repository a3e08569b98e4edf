// Measurements of the chosen stack, post-norm and pre-norm with their initial weights.

import type { Placement, StackMeasurement } from '../../kernels/kernels';
import { type MeasureJob, Measurer } from '../../kernels/sessions';
import { t } from '../../language/text';
import { type Look, lookOf } from '../../stacks/looks';
import { OWN, rowOf } from './arrangement';
import { chosenStack, chosenText } from './stack';

interface NamedJob extends MeasureJob {
  placements: string[]; // the stacks' placements; the first is the chosen one
}

const measurer = new Measurer<NamedJob>();
export const { measured } = measurer;

/** The kernels' error message about the text or the stack. */
export const measureProblem = measurer.problem;

let newest = ''; // the newest request

/** Requests the measurements. Repeated requests of the same job are ignored. */
export function request(job: NamedJob): void {
  const asked = JSON.stringify(job);
  if (asked !== newest) void measurer.request(job);
  newest = asked;
}

export function jobOf(table: Placement[]): NamedJob {
  const { arrangement, options } = chosenStack();
  const row = rowOf(arrangement, table);
  const others = table.filter((p) => ['post', 'pre'].includes(p.name) && p !== row);
  return {
    placements: [row?.name ?? OWN, ...others.map(({ name }) => name)],
    stacks: [arrangement, ...others].map((a) => ({ arrangement: a, options })),
    text: chosenText(),
  };
}

export interface Shown extends Look {
  placement: string;
  name: string; // the name in charts
  measurement: StackMeasurement;
}

/** The newest measurements, each with its name and its look. */
export function shownStacks(): Shown[] | undefined {
  return measured.value?.measurements.map((measurement, i) => {
    const placement = measured.value!.job.placements[i];
    const isRow = i === 0 && placement !== OWN;
    return {
      ...lookOf(placement),
      placement,
      name: isRow ? t`${placement} (this one)` : placement,
      measurement,
    };
  });
}
