// The position of the presentation. The address names the chapter; ?present=2 is the step.

import { computed, signal } from '@preact/signals';
import { onRoute } from '../chapters';
import { currentChapter, goTo } from '../state/link';
import { query } from '../state/query';

/** The steps of the current chapter; empty until it is loaded. */
export const steps = signal<Element[][]>([]);

/** The requested step, in a given chapter or in the one that the address names. */
const asked = signal<{ chapter?: number; step: number }>({
  step: Math.max(0, Number(query.get('present')) - 1) || 0,
});

/** The current chapter, from 0. */
export const place = computed(() => {
  const id = currentChapter();
  return Math.max(
    0,
    onRoute.value.findIndex(({ source }) => source.id === id),
  );
});

/** The current step, from 0; −1 until the chapter has steps. */
export const step = computed(() => {
  const { chapter = place.value, step } = asked.value;
  return Math.min(chapter === place.value ? step : 0, steps.value.length - 1);
});

/** Sets the steps found in the chapter. A requested step that is missing may appear with a later
 * result, so the request is kept, except for “the last step”. */
export function setSteps(found: Element[][]): void {
  steps.value = found;
  if (found.length === 0) return;
  const { chapter = place.value, step: wanted } = asked.value;
  const isHere = chapter === place.value && Number.isFinite(wanted);
  asked.value = { chapter: place.value, step: isHere ? wanted : step.value };
}

export function goToStep(chapter: number, step: number): void {
  if (!(chapter in onRoute.value)) return;
  asked.value = { chapter, step };
  if (chapter === place.value) return;
  steps.value = [];
  goTo(onRoute.value[chapter].source.id);
}

export function next(): void {
  if (step.value < 0) return;
  if (step.value + 1 < steps.value.length) goToStep(place.value, step.value + 1);
  else goToStep(place.value + 1, 0);
}

export function back(): void {
  if (step.value > 0) goToStep(place.value, step.value - 1);
  else goToStep(place.value - 1, Infinity);
}

/** Writes the step into the address, or removes it. */
export function writeStep(at: number | undefined): void {
  try {
    const url = new URL(location.href);
    if (at === undefined) url.searchParams.delete('present');
    else url.searchParams.set('present', String(at + 1));
    history.replaceState(null, '', url);
  } catch {
    // A browser may forbid this for a page of file://.
  }
}
