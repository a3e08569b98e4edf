// Checks which runs are shown, and how their files are followed.

import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { followRuns, logOf, problem, type Run, runs, shownRuns } from './feed';
import { NEWEST, state } from './state';

const run = (name: string, of: Run['state'] = 'finished'): Run => ({
  name,
  state: of,
  config: {},
  step: null,
  loss: null,
  tokens: null,
  seconds: null,
  validation_loss: null,
  stopped: null,
});
const shown = () => shownRuns.value.map(({ name }) => name);

test('the running and the newest runs are shown, six in all, in the order of the list', () => {
  const names = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h']; // newest first
  runs.value = names.map((name) => run(name, name === 'h' ? 'running' : 'finished'));
  state.shown.value = [NEWEST];
  expect(shown()).toEqual(['a', 'b', 'c', 'd', 'e', 'h']);
  state.shown.value = ['g', 'b', 'gone'];
  expect(shown()).toEqual(['b', 'g']);
  state.shown.value = [];
  expect(shown()).toEqual([]);
  runs.value = undefined;
  state.shown.reset();
  expect(shown()).toEqual([]);
});

/** The files of a server. */
const files = new Map<string, string>();

beforeEach(() => {
  vi.useFakeTimers();
  vi.stubGlobal('document', { hidden: false, addEventListener() {} });
  vi.stubGlobal('fetch', async (path: string) => {
    const [name, from] = path.split('?from=');
    const text = files.get(name) ?? '';
    return new Response(from === undefined ? text : text.slice(Number(from)));
  });
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

test('a file that was replaced is read anew, and leaves nothing of the one before', async () => {
  const line = (step: number) => `{"step":${step},"loss":1}\n`;
  const steps = () => logOf(run('a')).metrics.value.steps.map(({ step }) => step);
  files.set('api/runs', JSON.stringify([run('a')]));
  files.set('api/runs/a/metrics', line(1) + line(2));
  void followRuns();
  await vi.advanceTimersByTimeAsync(100);
  expect([steps(), problem.value]).toEqual([[1, 2], '']);
  files.set('api/runs/a/metrics', line(1) + line(2) + line(3));
  await vi.advanceTimersByTimeAsync(2000);
  expect(steps()).toEqual([1, 2, 3]);
  files.set('api/runs/a/metrics', line(7) + line(8) + line(9) + line(10));
  await vi.advanceTimersByTimeAsync(2000);
  expect(steps()).toEqual([7, 8, 9, 10]);
});
