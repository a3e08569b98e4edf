// Two runs of the same stack, without and with warm-up, each in its own worker.

import { batch, signal } from '@preact/signals';
import type { Opened, Stack } from '../../kernels/session-host';
import { type SessionWorker, takeWorker, textBytes } from '../../kernels/sessions';
import { endsOf } from '../../stacks/verdict';
import { mean } from '../../ui/vectors';

export interface Setup {
  name: string; // the arrangement's name
  stack: Stack; // with warm-up
  steps: number;
  text: string | undefined; // undefined: the bundled one
}

/** The mean of each value and up to `window` − 1 values before it. */
export function runningMeans(values: readonly number[], window: number): number[] {
  return values.map((_, i) => mean(values.slice(Math.max(0, i + 1 - window), i + 1)));
}

const VALIDATION_BATCHES = 8;

/** A measurement of the stack after `step` steps. */
export interface Health {
  step: number;
  gradient: number; // layer 0's over the last layer's
  tokenCosine: number; // at the end of the stack
}

class Run {
  readonly losses = signal<readonly number[]>([]);
  readonly health = signal<readonly Health[]>([]);
  readonly validation = signal<number | undefined>(undefined); // NaN: diverged
  #milliseconds = 0;

  constructor(
    readonly worker: SessionWorker,
    readonly stack: Stack,
    readonly slice: number,
  ) {}

  get stepMilliseconds(): number {
    return this.#milliseconds / this.losses.value.length;
  }

  async train(steps: number, going: () => boolean): Promise<void> {
    const done = () => this.losses.value.length;
    const finite = () => Number.isFinite(this.losses.value.at(-1) ?? 0);
    while (going() && finite() && done() < steps) {
      if (done() >= this.#nextMeasured) await this.#measure();
      const most = Math.min(steps, this.#nextMeasured) - done();
      const { losses, milliseconds } = await this.worker.call('train', most, this.slice);
      this.#milliseconds += milliseconds;
      this.losses.value = [...this.losses.value, ...losses];
    }
    if (!going() || this.validation.value !== undefined) return;
    if (finite() && this.health.value.at(-1)?.step !== done()) await this.#measure();
    const loss = finite() ? await this.worker.call('validate', VALIDATION_BATCHES) : NaN;
    this.validation.value = loss;
  }

  /** The number of steps after which the stack is measured next. The intervals grow. */
  get #nextMeasured(): number {
    const last = this.health.value.at(-1);
    return last === undefined ? 0 : Math.max(last.step + 1, Math.ceil(1.4 * last.step));
  }

  /** Measures the stack without changing the training. */
  async #measure(): Promise<void> {
    const measured = await this.worker.call('measureTrained');
    const { gradient } = endsOf(measured);
    const tokenCosine = measured.tokenCosine.at(-1)!;
    const step = this.losses.value.length;
    this.health.value = [...this.health.value, { step, gradient, tokenCosine }];
  }
}

export class Training {
  readonly status = signal<'idle' | 'running' | 'stopped' | 'done'>('idle');
  readonly problem = signal('');
  readonly setup = signal<Setup | undefined>(undefined);
  readonly opened = signal<Opened | undefined>(undefined);
  readonly runs = signal<readonly Run[]>([]); // without and with warm-up

  #busy: readonly Run[] | undefined; // the runs in progress

  /** A worker trains for `slice` milliseconds between updates of the page. */
  constructor(
    readonly makeWorker = takeWorker,
    readonly slice = 120,
  ) {}

  async start(setup: Setup): Promise<void> {
    this.reset();
    const { stack } = setup;
    const cold = { ...stack, options: { ...stack.options, warmUp: 0 } };
    batch(() => {
      this.setup.value = setup;
      this.runs.value = [cold, stack].map((of) => new Run(this.makeWorker(), of, this.slice));
      this.status.value = 'running';
    });
    await this.#work(setup, this.runs.value);
  }

  stop(): void {
    if (this.status.value === 'running') this.status.value = 'stopped';
  }

  async goOn(): Promise<void> {
    if (this.status.value !== 'stopped') return;
    this.status.value = 'running';
    if (this.#busy !== this.runs.value) await this.#work(this.setup.value!, this.runs.value);
  }

  reset(): void {
    this.runs.value.forEach((run) => run.worker.close());
    batch(() => {
      this.runs.value = [];
      this.setup.value = this.opened.value = undefined;
      this.status.value = 'idle';
      this.problem.value = '';
    });
  }

  /** Trains until the runs are done, stopped or replaced. An error stops them and is shown. */
  async #work(setup: Setup, runs: readonly Run[]): Promise<void> {
    const ours = () => this.runs.value === runs;
    const going = () => ours() && this.status.value === 'running';
    const done = () => runs.every((run) => run.validation.value !== undefined);
    this.#busy = runs;
    try {
      if (this.opened.value === undefined) {
        const text = await textBytes(setup.text);
        const opened = await Promise.all(runs.map((r) => r.worker.call('open', r.stack, text)));
        if (ours()) this.opened.value = opened[0];
      }
      while (going() && !done()) {
        await Promise.all(runs.map((run) => run.train(setup.steps, going)));
      }
      if (!ours()) return;
      if (done()) {
        runs.forEach((run) => run.worker.close());
        this.status.value = 'done';
      }
    } catch (error) {
      if (!ours()) return;
      this.reset();
      this.problem.value = (error as Error).message;
    } finally {
      if (this.#busy === runs) this.#busy = undefined;
    }
  }
}
