// Runs figures in a worker, the newest request first.

import { batch, signal } from '@preact/signals';
import type { Lab, LabList, LabRequest, LabRun } from '../../kernels/lab';
import { newest, Remote } from '../../kernels/remote';

export interface Ran {
  run: LabRun;
  request: LabRequest;
  milliseconds: number;
}

export const ran = signal<Ran | undefined>(undefined);
export const running = signal(false);
export const problem = signal('');
export const list = signal<LabList | undefined>(undefined);
export const colours = signal<{ light: string; dark: string } | undefined>(undefined);

let lab: Remote<Lab> | undefined;

async function startLab(): Promise<Remote<Lab>> {
  const worker = new Worker(new URL('../../kernels/lab-worker.ts', import.meta.url), {
    type: 'module',
  });
  const started = new Remote<Lab>(worker);
  const answers = await Promise.all([started.call('list'), started.call('colours')]);
  batch(() => ([list.value, colours.value] = answers));
  return started;
}

export const run = newest(async (request: LabRequest, isNewest) => {
  running.value = true;
  try {
    lab ??= await startLab();
    const start = performance.now();
    const result = await lab.call('run', request);
    const milliseconds = performance.now() - start;
    batch(() => {
      ran.value = { run: result, request, milliseconds };
      problem.value = '';
    });
  } catch (error) {
    problem.value = (error as Error).message;
  } finally {
    running.value = !isNewest();
  }
});
