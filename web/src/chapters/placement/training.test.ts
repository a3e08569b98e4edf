import { effect, untracked } from '@preact/signals';
import { beforeAll, expect, test } from 'vitest';
import { inProcessWorker } from '../../../test/in-process';
import type { Kernels } from '../../kernels/kernels';
import { loadKernels } from '../../kernels/current';
import type { SessionWorker } from '../../kernels/sessions';
import study from '#root/src/lab/training.h?raw';
import { runningMeans, type Setup, Training } from './training';
import { LEARNED, verdict } from './verdict';

let kernels: Kernels;
beforeAll(async () => {
  kernels = await loadKernels();
});

function setup(changes: Partial<Setup> = {}): Setup {
  const arrangement = kernels.placements().find(({ name }) => name === 'pre')!;
  return {
    name: 'pre',
    stack: {
      arrangement,
      options: {
        layers: 1,
        width: 8,
        heads: 2,
        context: 8,
        batch: 2,
        learningRate: 1e-2,
        warmUp: 4,
        seed: 0,
        initialization: 'torch',
        norm: 'layer',
      },
    },
    steps: 6,
    text: 'abracadabra '.repeat(20),
    ...changes,
  };
}
const training = () => new Training(() => inProcessWorker(kernels), 1);
const losses = (t: Training) => t.runs.value.map((run) => run.losses.value);

test('trains two runs to their end: the same first loss, then their own ways', async () => {
  const t = training();
  await t.start(setup());
  expect(t.status.value).toBe('done');
  const [without, warmed] = losses(t);
  expect([without.length, warmed.length]).toEqual([6, 6]);
  expect(without[0]).toBe(warmed[0]);
  expect(without[5]).not.toBe(warmed[5]);
  expect(t.opened.value!.unigramLoss).toBeGreaterThan(1);
  for (const run of t.runs.value) {
    expect(run.validation.value).toBeGreaterThan(0);
    expect(run.health.value.map(({ step }) => step)).toEqual([0, 1, 2, 3, 5, 6]);
    for (const { gradient } of run.health.value) expect(gradient).toBe(1); // of a single layer
  }
});

test('stopped and going on gives the same losses', async () => {
  const [whole, parts] = [training(), training()];
  const long = setup({ steps: 200 });
  await whole.start(long);
  const done = effect(() => {
    if (!losses(parts)[0]?.length) return;
    untracked(() => {
      parts.stop();
      void parts.goOn(); // immediately, so that the current steps simply continue
      parts.stop();
    });
  });
  await parts.start(long);
  done();
  expect(parts.status.value).toBe('stopped');
  expect(losses(parts)[0].length).toBeLessThan(200);
  await parts.goOn();
  expect(parts.status.value).toBe('done');
  expect(losses(parts)).toEqual(losses(whole));
});

test('a reset leaves nothing, and what was under way does not come back', async () => {
  const t = training();
  void t.start(setup());
  t.reset();
  await new Promise((resolve) => setTimeout(resolve, 50));
  expect([t.status.value, t.problem.value, t.runs.value]).toEqual(['idle', '', []]);
  await t.start(setup());
  expect(t.status.value).toBe('done');
});

test('an error of a training that was replaced does not touch its successor', async () => {
  let fail: (error: Error) => void;
  const broken = {
    call: () => new Promise((_, reject) => (fail = reject)),
    close() {},
  } as unknown as SessionWorker;
  const workers: (() => SessionWorker)[] = [() => broken, () => broken];
  const t = new Training(() => (workers.pop() ?? (() => inProcessWorker(kernels)))(), 1);
  const replaced = t.start(setup());
  await new Promise((resolve) => setTimeout(resolve));
  const next = t.start(setup());
  fail!(new Error('too late'));
  await replaced;
  await next;
  expect([t.status.value, t.problem.value]).toEqual(['done', '']);
});

test('a text that is too short ends in the kernels’ words', async () => {
  const t = training();
  await t.start(setup({ text: 'short' }));
  expect(t.problem.value).toContain('the text has 5 bytes');
  expect(t.status.value).toBe('idle');
});

test('running means', () => {
  expect(runningMeans([2, 4, 6, 8], 2)).toEqual([2, 3, 5, 7]);
});

test('what counts as a difference is what counts in `addnorm study`', () => {
  expect(LEARNED).toBe(Number(/kLearned = ([\d.]+);/.exec(study)![1]));
});

test('verdicts follow the numbers', () => {
  const of = (without: number, warmed: number) =>
    verdict({ steps: 9, unigram: 3.5, without, with: warmed });
  expect(of(3.49, 2.8)).toMatch(
    /^Without warm-up the stack stalls: the loss stays at 3.49,.* 2.80\.$/,
  );
  expect(of(NaN, 2.8)).toMatch(/^Without warm-up the stack diverges/);
  expect(of(3.45, 3.41)).toMatch(/^The stack does not train in 9 steps/);
  expect(of(3.0, 2.8)).toMatch(/^The stack trains better with warm-up/);
  expect(of(2.8, 2.75)).toMatch(
    /^The stack trains without warm-up: the loss is 2.80, with warm-up 2.75/,
  );
  expect(of(2.8, 3.45)).toMatch(/only 3.45 so far/);
});
