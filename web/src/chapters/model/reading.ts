// The network's reading of the newest prompt, computed in a worker.

import { batch, signal } from '@preact/signals';
import { networkFile } from '../../kernels/files';
import { newest } from '../../kernels/remote';
import { measurer } from '../../kernels/sessions';
import type { PromptReading } from '../../kernels/trained';
import { t } from '../../language/text';

export interface Shown {
  prompt: string; // the prompt of `reading`
  reading: PromptReading;
}

export const shown = signal<Shown | undefined>(undefined);
export const problem = signal('');

export const read = newest(async (prompt: string, isNewest) => {
  try {
    const bytes = new TextEncoder().encode(prompt);
    const reading = await measurer().call('readPrompt', await network(), bytes);
    if (!isNewest()) return;
    batch(() => {
      shown.value = { prompt, reading };
      problem.value = '';
    });
  } catch (error) {
    problem.value = (error as Error).message;
  }
});

let loading: Promise<ArrayBuffer> | undefined;

function network(): Promise<ArrayBuffer> {
  return (loading ??= networkFile().catch(() => {
    loading = undefined; // allows another try
    throw new Error(t`The network could not be loaded. Is the server still running?`);
  }));
}
