// The training runs, polled from the server.

import { computed, effect, signal } from '@preact/signals';
import { t } from '../language/text';
import { addMetrics, type Metrics, noMetrics } from './metrics';
import { addProfile, noProfile, type Profile } from './profile';
import { NEWEST, state } from './state';
import { Tail } from './tail';

export interface Run {
  name: string;
  state: 'running' | 'finished' | 'stopped';
  config: Record<string, unknown>;
  step: number | null;
  loss: number | null;
  tokens: number | null;
  seconds: number | null;
  validation_loss: number | null;
  stopped: string | null; // the reason
}

/** The runs, newest first; undefined until the server has answered. */
export const runs = signal<readonly Run[] | undefined>(undefined);
export const problem = signal('');
/** The number of updates of the logs. */
export const changes = signal(0);

const MOST_BY_ITSELF = 6;

export const shownRuns = computed(() => {
  const all = runs.value ?? [];
  const names = state.shown.value;
  if (names[0] !== NEWEST) return all.filter(({ name }) => names.includes(name));
  const isRunning = (run: Run) => Number(run.state === 'running');
  const first = all.toSorted((a, b) => isRunning(b) - isRunning(a)).slice(0, MOST_BY_ITSELF);
  return all.filter((run) => first.includes(run));
});

/** The part of a run's file that has been read so far. */
class Followed<T> {
  value: T;
  #tail = new Tail();
  constructor(
    readonly path: string,
    readonly none: () => T,
    readonly add: (to: T, lines: readonly string[]) => void,
  ) {
    this.value = none();
  }
  async read(): Promise<void> {
    const response = await get(`${this.path}?from=${this.#tail.from}`);
    const lines = this.#tail.take(new Uint8Array(await response.arrayBuffer()));
    if (lines === undefined) {
      this.value = this.none();
      changes.value++;
      return this.read();
    }
    if (lines.length === 0) return;
    this.add(this.value, lines);
    changes.value++;
  }
}

interface Log {
  metrics: Followed<Metrics>;
  profile: Followed<Profile>;
}
const logs = new Map<string, Log>();

export function logOf({ name }: Run): Log {
  const found = logs.get(name);
  if (found) return found;
  const path = `api/runs/${encodeURIComponent(name)}`;
  const log = {
    metrics: new Followed(`${path}/metrics`, noMetrics, addMetrics),
    profile: new Followed(`${path}/profile`, noProfile, addProfile),
  };
  logs.set(name, log);
  return log;
}

async function get(path: string): Promise<Response> {
  const response = await fetch(path).catch(() => {
    throw new Error(t`The server does not answer. The page continues when the server is back.`);
  });
  if (response.ok) return response;
  throw new Error(
    t`The server has no ${path}. To show runs, start addnorm serve --runs DIR with their folder.`,
  );
}

async function poll(): Promise<void> {
  const list = await (await get('api/runs')).json();
  if (JSON.stringify(list) !== JSON.stringify(runs.peek())) runs.value = list;
  for (const { metrics, profile } of shownRuns.peek().map(logOf)) {
    await metrics.read(); // sequential: the server has few threads
    await profile.read();
  }
}

const REST_MS = 1500;

/** Polls forever. Pauses while the page is hidden. */
export async function followRuns(): Promise<void> {
  let wake = () => {};
  effect(() => {
    state.shown.value;
    wake();
  });
  document.addEventListener('visibilitychange', () => wake());
  for (;;) {
    const rest = new Promise<void>((resolve) => {
      wake = resolve;
      setTimeout(resolve, REST_MS);
    });
    if (!document.hidden) {
      await poll().then(
        () => (problem.value = ''),
        (error) => (problem.value = error.message),
      );
    }
    await rest;
  }
}
