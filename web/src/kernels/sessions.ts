// Stacks that are measured and trained in workers, so that the page never waits for them.

import { batch, signal } from '@preact/signals';
import { kernels } from './current';
import type { Measurement } from './kernels';
import type { Answer, Method, SessionHost, Stack, Timed } from './session-host';

/** The part of a Worker that is used. */
export interface Port {
  postMessage(message: unknown): void;
  addEventListener(type: string, listener: (event: any) => void): void;
  terminate(): void;
}

const NO_WORKER = 'The page’s worker could not be started; is the server still there?';

/** A SessionHost in a worker: the same methods, as promises; what fails there is an Error here. */
export class SessionWorker {
  #port: Port;
  #calls = new Map<number, { resolve(value: any): void; reject(error: Error): void }>();
  #last = 0;
  #failed = false;

  constructor(port: Port = startWorker()) {
    this.#port = port;
    port.addEventListener('message', ({ data }: { data: Answer }) => this.#settle(data));
    port.addEventListener('error', () => {
      this.#failed = true;
      for (const id of [...this.#calls.keys()]) this.#settle({ id, problem: NO_WORKER });
    });
  }

  /** Whether the thread could not be started: every call fails. */
  get failed(): boolean {
    return this.#failed;
  }

  call<M extends Method>(
    method: M,
    ...args: Parameters<SessionHost[M]>
  ): Promise<ReturnType<SessionHost[M]>> {
    if (this.#failed) return Promise.reject(new Error(NO_WORKER));
    const id = ++this.#last;
    return new Promise((resolve, reject) => {
      this.#calls.set(id, { resolve, reject });
      this.#port.postMessage({ id, method, args });
    });
  }

  /** Ends the thread, whatever it is doing; calls under way never settle. */
  close(): void {
    this.#port.terminate();
  }

  #settle(answer: Answer) {
    const call = this.#calls.get(answer.id)!;
    this.#calls.delete(answer.id);
    if ('problem' in answer) call.reject(new Error(answer.problem));
    else call.resolve(answer.value);
  }
}

function startWorker(): Worker {
  const worker = new Worker(new URL('./worker.ts', import.meta.url), { type: 'module' });
  worker.postMessage(kernels.module);
  return worker;
}

const spares: SessionWorker[] = [];

/** A worker that has been started beforehand, if there still is one. */
export function takeWorker(): SessionWorker {
  const spare = spares.pop();
  return spare === undefined || spare.failed ? new SessionWorker() : spare;
}

/** Loads what one measuring and one training need, so that both work when the server has gone. What
 * fails here is loaded when first used. */
export function preload(): void {
  while (spares.length < 3) spares.push(new SessionWorker());
  textBytes(undefined).catch(() => {});
}

/** Runs `work` on the newest input: what comes while one is under way waits, and only the last of
 * those that wait has its turn. `work` is told whether its input still is the newest. */
export function newest<A>(work: (input: A, isNewest: () => boolean) => Promise<void>) {
  let waiting: A[] = [];
  let working = false;
  return async (input: A): Promise<void> => {
    waiting = [input];
    if (working) return;
    working = true;
    try {
      for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
        await work(next, () => waiting.length === 0);
      }
    } finally {
      working = false;
    }
  };
}

export interface MeasureJob {
  stacks: Stack[];
  text: string | undefined; // undefined: the bundled one
}

export interface Measured<J> {
  job: J;
  measurements: Measurement[]; // one for each stack
  milliseconds: number; // of the measuring alone
}

let measuringWorker: SessionWorker | undefined;

/** What the newest job measured, or why it could not. */
export class Measurer<J extends MeasureJob = MeasureJob> {
  readonly measured = signal<Measured<J> | undefined>(undefined);
  readonly problem = signal('');

  readonly request = newest(async (job: J, isNewest) => {
    try {
      const text = await textBytes(job.text);
      if (measuringWorker === undefined || measuringWorker.failed) {
        measuringWorker = takeWorker();
      }
      const measurements: Timed<Measurement>[] = [];
      for (const stack of job.stacks) {
        measurements.push(await measuringWorker.call('measure', stack, text));
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

/** A text as the models read it; undefined: the bundled one, which is loaded when first used. */
export async function textBytes(text: string | undefined): Promise<Uint8Array> {
  return new TextEncoder().encode(text ?? (await loadBundledText()));
}

async function loadBundledText(): Promise<string> {
  const { bundledText } = await import('./bundled-text').catch(() => {
    throw new Error('The bundled text could not be loaded; is the server still there?');
  });
  return bundledText;
}
