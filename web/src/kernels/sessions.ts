// Stacks that are measured and trained in workers, so that the page never waits for them.

import { signal } from '@preact/signals';
import { kernels } from './current';
import type { Measurement } from './kernels';
import type { Answer, Method, SessionHost, Stack } from './session-host';

/** The part of a Worker that is used. */
export interface Port {
  postMessage(message: unknown): void;
  addEventListener(type: string, listener: (event: any) => void): void;
  terminate(): void;
}

/** A SessionHost in a worker: the same methods, as promises; what fails there is an Error here. */
export class SessionWorker {
  #port: Port;
  #calls = new Map<number, { resolve(value: any): void; reject(error: Error): void }>();
  #last = 0;

  constructor(port: Port = startWorker()) {
    this.#port = port;
    port.addEventListener('message', ({ data }: { data: Answer }) => this.#settle(data));
    port.addEventListener('error', () => {
      const problem = 'The page’s worker could not be started.';
      for (const id of [...this.#calls.keys()]) this.#settle({ id, problem });
    });
  }

  call<M extends Method>(
    method: M,
    ...args: Parameters<SessionHost[M]>
  ): Promise<ReturnType<SessionHost[M]>> {
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

/** Runs `work` on the newest input: what comes while one is under way waits, and only the last of
 * those that wait has its turn. `work` must not fail. */
export function newest<A>(work: (input: A) => Promise<void>): (input: A) => Promise<void> {
  let waiting: A[] = [];
  let working = false;
  return async (input) => {
    waiting = [input];
    if (working) return;
    working = true;
    for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) await work(next);
    working = false;
  };
}

export interface MeasureJob {
  stacks: Stack[];
  text: string | undefined; // undefined: the bundled one
}

export interface Measured<J> {
  job: J;
  measurements: Measurement[]; // one for each stack
  milliseconds: number;
}

let measuringWorker: SessionWorker | undefined;

/** What the newest job measured, or why it could not. */
export class Measurer<J extends MeasureJob = MeasureJob> {
  readonly measured = signal<Measured<J> | undefined>(undefined);
  readonly problem = signal('');

  readonly request = newest(async (job: J) => {
    try {
      const text = await textBytes(job.text);
      measuringWorker ??= new SessionWorker();
      const start = performance.now();
      const measurements = await measuringWorker.call('measure', job.stacks, text);
      this.measured.value = { job, measurements, milliseconds: performance.now() - start };
      this.problem.value = '';
    } catch (error) {
      this.problem.value = (error as Error).message;
    }
  });
}

/** A text as the models read it; undefined: the bundled one, which is loaded when first used. */
export async function textBytes(text: string | undefined): Promise<Uint8Array> {
  return new TextEncoder().encode(text ?? (await import('./bundled-text')).bundledText);
}
