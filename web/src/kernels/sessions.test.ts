import { beforeAll, describe, expect, test } from 'vitest';
import { inProcessWorker } from '../../test/in-process';
import type { Kernels, SessionOptions } from './kernels';
import { loadKernels } from './current';
import type { SessionHost, Stack } from './session-host';
import { newest, type Port, Remote } from './remote';
import { textBytes } from './sessions';

const OPTIONS: SessionOptions = {
  layers: 2,
  width: 8,
  heads: 2,
  context: 8,
  batch: 2,
  learningRate: 1e-3,
  warmUp: 0,
  seed: 0,
  initialization: 'torch',
  norm: 'layer',
};
const TEXT = new TextEncoder().encode('abracadabra '.repeat(20));

let kernels: Kernels;
let stack: Stack;
beforeAll(async () => {
  kernels = await loadKernels();
  const arrangement = kernels.placements().find(({ name }) => name === 'pre')!;
  stack = { arrangement, options: OPTIONS };
});

test('a measurement through a worker is that of the kernels', async () => {
  const session = kernels.session(stack.arrangement, OPTIONS, TEXT);
  const expected = session.measure();
  session.destroy();
  const worker = inProcessWorker(kernels);
  for (let i = 0; i < 2; ++i) {
    expect(await worker.call('measure', stack, TEXT)).toMatchObject(expected);
  }
});

test('training goes on where the last call ended, and ends at its most steps', async () => {
  const worker = inProcessWorker(kernels);
  const { unigramLoss } = await worker.call('open', stack, TEXT);
  expect(unigramLoss).toBeGreaterThan(1);
  const first = await worker.call('train', 3, 10_000);
  const second = await worker.call('train', 2, 10_000);
  const session = kernels.session(stack.arrangement, OPTIONS, TEXT);
  const expected = Array.from({ length: 5 }, () => session.step());
  expect([...first.losses, ...second.losses]).toEqual(expected);
  expect(first.milliseconds).toBeGreaterThan(0);
  expect(await worker.call('validate', 2)).toBe(session.validate(2));
  session.destroy();
});

test('a call that is out of time makes one step', async () => {
  const worker = inProcessWorker(kernels);
  await worker.call('open', stack, TEXT);
  expect((await worker.call('train', 100, 0.0001)).losses).toHaveLength(1);
});

test('the kernels’ words come back, and the worker can be used again', async () => {
  const worker = inProcessWorker(kernels);
  await worker.call('open', stack, TEXT);
  await expect(worker.call('open', stack, TEXT.slice(0, 20))).rejects.toThrow(
    'the text has 20 bytes, a context of 8 needs at least 90',
  );
  await expect(worker.call('train', 1, 10)).rejects.toThrow('no stack to train');
  await worker.call('open', stack, TEXT);
  expect((await worker.call('train', 1, 10)).losses).toHaveLength(1);
});

test('answers find their calls whatever their order; a lost worker fails all', async () => {
  const listeners: Record<string, (event: unknown) => void> = {};
  const port: Port = {
    addEventListener: (type, listener) => (listeners[type] = listener),
    postMessage: () => {},
    terminate: () => {},
  };
  const worker = new Remote<SessionHost>(port);
  const [one, two, three] = [1, 2, 3].map((n) => worker.call('validate', n));
  listeners.message({ data: { id: 2, value: 'two' } });
  listeners.message({ data: { id: 1, value: 'one' } });
  expect(await Promise.all([one, two])).toEqual(['one', 'two']);
  listeners.error({});
  await expect(three).rejects.toThrow('could not be started');
});

describe('newest', () => {
  test('skips what was overtaken', async () => {
    const begun: number[] = [];
    const ends: (() => void)[] = [];
    const request = newest((n: number) => {
      begun.push(n);
      return new Promise<void>((resolve) => ends.push(resolve));
    });
    const all = request(1);
    for (const n of [2, 3, 4]) void request(n);
    expect(begun).toEqual([1]);
    ends[0]();
    await new Promise((resolve) => setTimeout(resolve));
    expect(begun).toEqual([1, 4]);
    ends[1]();
    await all;
    void request(5);
    expect(begun).toEqual([1, 4, 5]);
  });
});

test('the bundled text is long, and a given one stays as it is', async () => {
  const bundled = await textBytes(undefined);
  expect(new TextDecoder().decode(bundled)).toMatch(
    /^In the beginning God created the heaven and the earth.\n/,
  );
  expect(bundled.length).toBeGreaterThan(150_000);
  expect(bundled.length).toBeLessThan(250_000);
  expect(await textBytes('é')).toEqual(Uint8Array.of(0xc3, 0xa9));
});
