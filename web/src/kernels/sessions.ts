// Measures and trains stacks in workers, so that the page never blocks.

import { batch, signal } from '@preact/signals';
import { t } from '../language/text';
import { loadKernels } from './current';
import { bundledText, portable, sessionWorker } from './files';
import type { StackMeasurement } from './kernels';
import { connect, newest, type Remote } from './remote';
import type { SessionHost, Stack, Timed } from './session-host';

export type SessionWorker = Remote<SessionHost>;

function startWorker(): SessionWorker {
  return connect(
    sessionWorker(),
    loadKernels().then(({ module }) => portable(module)),
  );
}

const spares: SessionWorker[] = [];

/** A preloaded worker if there is one, else a new one. */
export function takeWorker(): SessionWorker {
  const spare = spares.pop();
  return spare === undefined || spare.failed ? startWorker() : spare;
}

/** Loads the parts that one measurement and one training need, so that both work without the
 * server. Parts that fail to load here are loaded at their first use. */
export function preload(): void {
  while (spares.length < 3) spares.push(startWorker());
  textBytes(undefined).catch(() => {});
}

export interface MeasureJob {
  stacks: Stack[];
  text: string | undefined; // undefined: the bundled one
}

export interface Measured<J> {
  job: J;
  measurements: StackMeasurement[]; // one for each stack
  milliseconds: number; // of the measurement alone
}

let measuringWorker: SessionWorker | undefined;

export function measurer(): SessionWorker {
  if (measuringWorker === undefined || measuringWorker.failed) measuringWorker = takeWorker();
  return measuringWorker;
}

/** The measurements of the newest job, or the reason why they failed. */
export class Measurer<J extends MeasureJob = MeasureJob> {
  readonly measured = signal<Measured<J> | undefined>(undefined);
  readonly problem = signal('');

  readonly request = newest(async (job: J, isNewest) => {
    try {
      const text = await textBytes(job.text);
      const measurements: Timed<StackMeasurement>[] = [];
      for (const stack of job.stacks) {
        measurements.push(await measurer().call('measure', stack, text));
        if (!isNewest()) return;
      }
      const milliseconds = measurements.reduce((sum, m) => sum + m.milliseconds, 0);
      batch(() => {
        this.measured.value = { job, measurements, milliseconds };
        this.problem.value = '';
      });
    } catch (error) {
      this.problem.value = (error as Error).message;
    }
  });
}

/** A text as bytes for the models; undefined: the bundled text, which is loaded at its first use. */
export async function textBytes(text: string | undefined): Promise<Uint8Array> {
  return new TextEncoder().encode(text ?? (await loadBundledText()));
}

async function loadBundledText(): Promise<string> {
  return bundledText().catch(() => {
    throw new Error(t`The bundled text could not be loaded. Is the server still running?`);
  });
}
