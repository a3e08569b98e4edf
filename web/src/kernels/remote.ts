// Calls the methods of an object in a worker, the host, from the page.

import { compile } from 'addnorm/compile';
import { msg } from '../language/template';

export interface Request {
  id: number;
  method: string;
  args: unknown[];
}
export type Answer = { id: number; value: unknown } | { id: number; problem: string };

/** Runs the host's method in the worker. Returns its result or its error. */
export async function answer(host: object, { id, method, args }: Request): Promise<Answer> {
  try {
    const methods = (await host) as Record<string, (...args: unknown[]) => unknown>;
    return { id, value: methods[method](...args) };
  } catch (error) {
    return { id, problem: error instanceof Error ? error.message : String(error) };
  }
}

/** A module in a form that can be sent to a worker. */
export type Portable = WebAssembly.Module | ArrayBuffer;

/** The worker's end of the connection. The page first sends the module, from which the host is
 * made; requests wait for the host. */
export function answerRequests(hostOf: (module: WebAssembly.Module) => object): void {
  let start: (host: object) => void;
  const host = new Promise<object>((resolve) => (start = resolve));
  addEventListener('message', async ({ data }: MessageEvent<Portable | Request>) => {
    if ('method' in data) postMessage(await answer(host, data));
    else start(hostOf(await compile(data)));
  });
}

/** The page's end of the connection. If the module cannot be loaded, every
 * call fails with that error. */
export function connect<H extends object>(worker: Worker, module: Promise<Portable>): Remote<H> {
  const remote = new Remote<H>(worker);
  module.then(
    (compiled) => worker.postMessage(compiled),
    (error: Error) => remote.fail(error.message),
  );
  return remote;
}

/** The used part of a Worker. */
export interface Port {
  postMessage(message: unknown): void;
  addEventListener(type: string, listener: (event: any) => void): void;
  terminate(): void;
}

const NO_WORKER = msg`The page’s worker could not be started. If the page comes from a server, is
  the server still running?`;

/** The page's proxy of a host H. It has the same methods, as promises
 * that reject if the host throws. */
export class Remote<H extends object> {
  #port: Port;
  #calls = new Map<number, { resolve(value: any): void; reject(error: Error): void }>();
  #last = 0;
  #failed: string | undefined;

  constructor(port: Port) {
    this.#port = port;
    port.addEventListener('message', ({ data }: { data: Answer }) => this.#settle(data));
    port.addEventListener('error', () => this.fail(NO_WORKER));
  }

  /** Rejects every pending and later call. */
  fail(problem: string): void {
    this.#failed = problem;
    for (const id of [...this.#calls.keys()]) this.#settle({ id, problem });
  }

  /** Whether the worker could not be started, in which case every call fails. */
  get failed(): boolean {
    return this.#failed !== undefined;
  }

  call<M extends keyof H & string>(
    method: M,
    ...args: H[M] extends (...args: any[]) => unknown ? Parameters<H[M]> : never
  ): Promise<H[M] extends (...args: any[]) => infer R ? R : never> {
    if (this.#failed !== undefined) return Promise.reject(new Error(this.#failed));
    const id = ++this.#last;
    return new Promise((resolve, reject) => {
      this.#calls.set(id, { resolve, reject });
      this.#port.postMessage({ id, method, args });
    });
  }

  /** Terminates the worker; pending calls never settle. */
  close(): void {
    this.#port.terminate();
  }

  #settle(answer: Answer) {
    const call = this.#calls.get(answer.id);
    if (call === undefined) return; // it has already been rejected
    this.#calls.delete(answer.id);
    if ('problem' in answer) call.reject(new Error(answer.problem));
    else call.resolve(answer.value);
  }
}

/** Runs `work` on the newest input. Inputs that arrive during a run wait, and only the last of them
 * is used. `isNewest` says whether an input is still the newest. */
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
