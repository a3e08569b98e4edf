// Checks which worker measures, and which measurements are skipped, with workers that answer when a
// test says so.

import { expect, test, vi } from 'vitest';
import { type MeasureJob, Measurer, preload, takeWorker } from './sessions';

interface Call {
  id: number;
  method: string;
  args: unknown[];
}

class FakeWorker {
  static all: FakeWorker[] = [];
  calls: Call[] = [];
  #listeners: Record<string, (event: object) => void> = {};

  constructor() {
    FakeWorker.all.push(this);
  }
  postMessage(message: Call) {
    if (message.method !== undefined) this.calls.push(message); // others are the module
  }
  addEventListener(type: string, listener: (event: object) => void) {
    this.#listeners[type] = listener;
  }
  terminate() {}
  answer(value: unknown) {
    this.#listeners.message({ data: { id: this.calls.at(-1)!.id, value } });
  }
  fail() {
    this.#listeners.error({});
  }
}

vi.mock('./files', () => ({
  portable: (module: unknown) => module,
  sessionWorker: () => new FakeWorker(),
  bundledText: async () => 'text',
}));
vi.mock('./current', () => ({ loadKernels: async () => ({ module: {} }) }));

const settled = () => new Promise((resolve) => setTimeout(resolve));

test('workers are loaded in advance, and one that failed is not used', () => {
  preload();
  preload();
  expect(FakeWorker.all).toHaveLength(3);
  FakeWorker.all[2].fail(); // the one that is taken first
  expect(takeWorker().failed).toBe(false);
  expect(FakeWorker.all).toHaveLength(4);
  expect(takeWorker().failed).toBe(false);
  expect(FakeWorker.all).toHaveLength(4); // that was one of those loaded in advance
});

test('a job that a newer one overtakes ends after the stack that is being measured', async () => {
  const measurer = new Measurer();
  const job = (...names: string[]) =>
    ({ stacks: names, text: 'text' }) as unknown as MeasureJob & { stacks: string[] };
  const measured = () =>
    FakeWorker.all.flatMap(({ calls }) => calls.map(({ args }) => args[0] as string));
  const answer = async () => {
    const worker = FakeWorker.all.find(({ calls }) => calls.length > 0)!;
    worker.answer({ name: worker.calls.at(-1)!.args[0], milliseconds: 2 });
    await settled();
  };
  void measurer.request(job('a', 'b', 'c'));
  await settled();
  void measurer.request(job('d'));
  const newest = job('e', 'f');
  void measurer.request(newest);
  await answer();
  await answer();
  expect(measurer.measured.value).toBe(undefined);
  await answer();
  expect(measured()).toEqual(['a', 'e', 'f']);
  expect(measurer.measured.value).toMatchObject({
    job: newest,
    measurements: [{ name: 'e' }, { name: 'f' }],
    milliseconds: 4,
  });
});
