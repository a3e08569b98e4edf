// Compares the tutorial's network in the module with the native program and with algebra.

import { spawnSync } from 'node:child_process';
import { copyFileSync, mkdirSync, readFileSync } from 'node:fs';
import { beforeAll, expect, test } from 'vitest';
import { readNpy, root, withFolder, writeNpy } from '../../packages/addnorm/test/native';
import { CONTEXT, LAYERS, PROMPTS } from '../chapters/model/state';
import { loadKernels } from './current';
import { parseSafetensors } from './safetensors';
import { optionsOf, readPrompt, TrainedDecoder } from './trained';

const path = `${root}web/src/chapters/model/network.safetensors`;
const file = Uint8Array.from(readFileSync(path)).buffer;
const bytesOf = (text: string) => new TextEncoder().encode(text);
const prompt = bytesOf(PROMPTS[0].prompt);

let module: WebAssembly.Module;
beforeAll(async () => {
  ({ module } = await loadKernels());
});

/** The measurements of `addnorm doctor` for the network on these tokens, and its logits. */
function native(tokens: Uint8Array) {
  return withFolder((inFolder) => {
    mkdirSync(inFolder('run'));
    copyFileSync(path, inFolder('run/checkpoint.safetensors'));
    writeNpy(inFolder('ids.npy'), [1, tokens.length], Int32Array.from(tokens));
    const flags = ['--tokens', inFolder('ids.npy'), '--logits', inFolder('logits.npy'), '--json'];
    const { stdout, stderr } = spawnSync(
      `${root}build/release/bin/addnorm`,
      ['doctor', inFolder('run'), ...flags],
      { encoding: 'utf8' },
    );
    expect(stderr).toBe('');
    const logits = readNpy(inFolder('logits.npy'), new Float32Array());
    return { layers: JSON.parse(stdout).layers, logits };
  });
}

/** −ln softmax of each logit of a row, in float64. */
function costs(row: Float32Array): number[] {
  const most = Math.max(...row);
  const sum = row.reduce((total, v) => total + Math.exp(v - most), 0);
  return Array.from(row, (v) => Math.log(sum) + most - v);
}

test('reads a prompt as the native program does', () => {
  const { whole, stream, branch, features } = readPrompt(module, file, prompt);
  const { layers, logits } = native(prompt);
  const rows = Array.from(prompt, (_, t) => costs(logits.subarray(256 * t, 256 * (t + 1))));
  const own = Array.from(prompt.subarray(1), (byte, t) => rows[t][byte]);
  expect(whole.loss).toBeCloseTo(own.reduce((a, b) => a + b) / own.length, 5);
  rows.at(-1)!.forEach((cost, byte) => {
    expect(whole.next[byte]).toBeCloseTo(Math.exp(-cost), 5);
  });
  expect(layers).toHaveLength(LAYERS);
  const close = (found: number, expected: number) => expect(found / expected).toBeCloseTo(1, 4);
  for (const { layer, stream_rms, attention_share, feed_forward_share } of layers) {
    const [attention, feedForward] = [2 * layer, 2 * layer + 1];
    close(stream[attention], stream_rms);
    close(branch[attention] / stream[attention], attention_share);
    close(branch[feedForward] / stream[feedForward], feed_forward_share);
  }
  features.forEach((values, i) => {
    close(Math.hypot(...values) / Math.sqrt(values.length), stream[i]);
  });
});

test('a sublayer that is skipped is one whose last projection is zero; a layer is both', () => {
  const reading = readPrompt(module, file, prompt);
  const without = (sublayers: number[], length = 32) => {
    const { values, metadata } = parseSafetensors(file);
    for (const i of sublayers) {
      const projection = i % 2 === 0 ? 'attention.output' : 'feed_forward.down';
      for (const part of ['weight', 'bias']) {
        values.get(`layers.${i >> 1}.${projection}.${part}`)!.fill(0);
      }
    }
    const decoder = new TrainedDecoder(module, optionsOf(metadata.config), values);
    return decoder.predict(prompt, { first: 0, count: 0 }, length);
  };
  expect(without([])).toEqual(reading.whole);
  for (const i of [0, 3, 2 * LAYERS - 1]) {
    expect(without([i], 0)).toEqual(reading.withoutSublayer[i]);
  }
  for (const l of [0, 4]) expect(without([2 * l, 2 * l + 1])).toEqual(reading.withoutLayer[l]);
});

test('the logit lens ends with the whole network, and begins with the embedding alone', () => {
  const { lens, whole, withoutLayer } = readPrompt(module, file, prompt);
  expect(lens).toHaveLength(LAYERS + 1);
  expect(lens.at(-1)).toEqual({ ...whole, continuation: new Uint8Array(0) });
  expect(lens.at(-2)!.next).toEqual(withoutLayer.at(-1)!.next);
  expect(lens[0].loss).toBeGreaterThan(lens.at(-1)!.loss);
  for (const { next } of lens) expect(next.reduce((a, b) => a + b)).toBeCloseTo(1, 5);
});

test('goes on with the likeliest byte, each time', () => {
  const { continuation } = readPrompt(module, file, prompt).whole;
  expect(continuation).toHaveLength(32);
  for (const length of [0, 1, 17]) {
    const longer = Uint8Array.from([...prompt, ...continuation.subarray(0, length)]);
    const { next } = readPrompt(module, file, longer).whole;
    expect(next.indexOf(Math.max(...next))).toBe(continuation[length]);
  }
  const full = new Uint8Array(CONTEXT).fill(97);
  expect(readPrompt(module, file, full).whole.continuation).toHaveLength(0);
});

test('is as large as the chapter says, and has every γ', () => {
  const { network } = readPrompt(module, file, prompt);
  expect(network).toMatchObject({ layers: LAYERS, context: CONTEXT });
  expect(network.gammas).toHaveLength(2 * LAYERS + 1);
  for (const gamma of network.gammas) expect(gamma).toHaveLength(network.width);
});

test('what cannot be read is said', () => {
  expect(() => readPrompt(module, file, bytesOf('a'))).toThrow(
    `the prompt has 1 bytes, must have from 2 to ${CONTEXT}`,
  );
  const { values, metadata } = parseSafetensors(file);
  const options = optionsOf(metadata.config);
  const some = new Map([...values].slice(1));
  expect(() => new TrainedDecoder(module, options, some).measure(prompt)).toThrow(
    "the file lacks 1 parameters, such as 'embedding.token'",
  );
  expect(() => new TrainedDecoder(module, { ...options, width: 64 }, values)).toThrow(
    /'embedding\.token' has \d+ values, the model needs \d+/,
  );
});
