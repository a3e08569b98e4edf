// The measurements of the hero's stacks. A worker makes each once.

import { signal } from '@preact/signals';
import type { TokenMeasurement } from '../kernels/kernels';
import { newest } from '../kernels/remote';
import type { Timed } from '../kernels/session-host';
import { measurer } from '../kernels/sessions';
import { type Parts, stackOf, textOf } from './stack';

interface Wanted extends Parts {
  sentence: string;
}

export interface Shown extends Wanted {
  tokens: Timed<TokenMeasurement>;
}

export const shown = signal<Shown | undefined>(undefined);
export const problem = signal('');

/** The measurements of the last few requests. */
const known = new Map<string, Promise<Timed<TokenMeasurement>>>();
const MOST_KNOWN = 32;

function measure(wanted: Wanted): Promise<Timed<TokenMeasurement>> {
  const { add, norm, sentence } = wanted;
  const key = `${add} ${norm} ${sentence}`;
  const made =
    known.get(key) ??
    measurer().call('measureSentence', stackOf(wanted, sentence), textOf(sentence));
  if (known.size > MOST_KNOWN) known.clear();
  known.set(key, made);
  made.catch(() => known.delete(key)); // allows another try
  return made;
}

/** Shows the latest requested stack. */
export const show = newest(async (wanted: Wanted, isNewest) => {
  try {
    const tokens = await measure(wanted);
    if (!isNewest()) return;
    shown.value = { ...wanted, tokens };
    problem.value = '';
  } catch (error) {
    problem.value = (error as Error).message;
  }
});
