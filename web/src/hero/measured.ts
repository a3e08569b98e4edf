// The measurements of the hero's stacks. A worker makes each once.

import { signal } from '@preact/signals';
import type { TokenMeasurement } from '../kernels/kernels';
import { newest } from '../kernels/remote';
import type { Timed } from '../kernels/session-host';
import { measurer } from '../kernels/sessions';
import { stackOf, TEXT } from './stack';

export interface Shown {
  add: boolean;
  norm: boolean;
  tokens: Timed<TokenMeasurement>;
}

export const shown = signal<Shown | undefined>(undefined);
export const problem = signal('');

const known = new Map<string, Promise<Timed<TokenMeasurement>>>();

function measure(add: boolean, norm: boolean): Promise<Timed<TokenMeasurement>> {
  const key = `${add} ${norm}`;
  const made = known.get(key) ?? measurer().call('measureSentence', stackOf(add, norm), TEXT);
  known.set(key, made);
  made.catch(() => known.delete(key)); // allows another try
  return made;
}

/** Shows the latest requested stack. */
export const show = newest(async ({ add, norm }: { add: boolean; norm: boolean }, isNewest) => {
  try {
    const tokens = await measure(add, norm);
    if (!isNewest()) return;
    shown.value = { add, norm, tokens };
    problem.value = '';
  } catch (error) {
    problem.value = (error as Error).message;
  }
});
