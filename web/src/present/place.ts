// Where the presentation is. The chapter is that of the address, the step a number in ?present=2.

import { computed, signal } from '@preact/signals';
import { chapters } from '../chapters';
import { currentChapter, goTo } from '../state/link';
import { query } from '../state/query';

/** The steps of the current chapter; none until it is there. */
export const steps = signal<Element[][]>([]);

/** The step that was asked for, in a chapter or in the one that the address will name. */
const asked = signal<{ chapter?: number; step: number }>({
  step: Math.max(0, Number(query.get('present')) - 1) || 0,
});

/** The current chapter, from 0. */
export const place = computed(() => {
  const id = currentChapter();
  return Math.max(
    0,
    chapters.findIndex(({ source }) => source.id === id),
  );
});

/** Its current step, from 0; −1 until it has any. */
export const step = computed(() => {
  const { chapter = place.value, step } = asked.value;
  return Math.min(chapter === place.value ? step : 0, steps.value.length - 1);
});

/** A step that is not there yet may come with a result: it stays asked for, but for “the last”. */
export function setSteps(found: Element[][]): void {
  steps.value = found;
  if (found.length === 0) return;
  const { chapter = place.value, step: wanted } = asked.value;
  const isHere = chapter === place.value && Number.isFinite(wanted);
  asked.value = { chapter: place.value, step: isHere ? wanted : step.value };
}

export function goToStep(chapter: number, step: number): void {
  if (!(chapter in chapters)) return;
  asked.value = { chapter, step };
  if (chapter === place.value) return;
  steps.value = [];
  goTo(chapters[chapter].source.id);
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

/** Puts the step into the address, or takes it away. */
export function writeStep(at: number | undefined): void {
  try {
    const url = new URL(location.href);
    if (at === undefined) url.searchParams.delete('present');
    else url.searchParams.set('present', String(at + 1));
    history.replaceState(null, '', url);
  } catch {
    // A browser may refuse this to a page of file://.
  }
}
