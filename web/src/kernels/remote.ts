// A host in a worker: its methods, called from the page as promises.

/** The call with this number is to run; `args` are those of the method. */
export interface Request {
  id: number;
  method: string;
  args: unknown[];
}
export type Answer = { id: number; value: unknown } | { id: number; problem: string };

/** The worker's side: what the host's method gives, or what it throws. */
export async function answer(host: object, { id, method, args }: Request): Promise<Answer> {
  try {
    const methods = (await host) as Record<string, (...args: unknown[]) => unknown>;
    return { id, value: methods[method](...args) };
  } catch (error) {
    return { id, problem: error instanceof Error ? error.message : String(error) };
  }
}

/** The part of a Worker that is used. */
export interface Port {
  postMessage(message: unknown): void;
  addEventListener(type: string, listener: (event: any) => void): void;
  terminate(): void;
}

const NO_WORKER = 'The page’s worker could not be started; is the server still there?';

/** The page's side of a host H: the same methods, as promises; what fails there is an Error here. */
export class Remote<H extends object> {
  #port: Port;
  #calls = new Map<number, { resolve(value: any): void; reject(error: Error): void }>();
  #last = 0;
  #failed = false;

  constructor(port: Port) {
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

  call<M extends keyof H & string>(
    method: M,
    ...args: H[M] extends (...args: any[]) => unknown ? Parameters<H[M]> : never
  ): Promise<H[M] extends (...args: any[]) => infer R ? R : never> {
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
