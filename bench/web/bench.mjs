// Times LayerNorm and add + LayerNorm in WebAssembly on one thread: this library's module against onnxruntime-web. The
// runs alternate, and the medians are printed. Needs Node.js; `make bench` installs and runs it.

import { readFileSync } from 'node:fs';
import * as ort from 'onnxruntime-web';
import { Arena, Instance } from '../../web/packages/addnorm/dist/instance.js';
import { model } from './onnx.mjs';

const [ROWS, COLS] = [1024, 768];
const SIZE = ROWS * COLS;
const ROUNDS = 41;

const random = (n) => Float32Array.from({ length: n }, () => Math.random() - 0.5);
const [x, branch, gamma, beta] = [random(SIZE), random(SIZE), random(COLS), random(COLS)];

const ours = addnorm();
const theirs = await onnxruntime();
await measure('LayerNorm', ours.norm, ours.normCopied, theirs.norm);
await measure('add + LayerNorm', ours.addNorm, ours.addNormCopied, theirs.addNorm);
await measure('add + LayerNorm, fused there', ours.addNorm, ours.addNormCopied, theirs.skipNorm);

async function measure(name, inPlace, copied, other) {
  const runs = [inPlace, copied, other];
  const times = runs.map(() => []);
  for (let round = -5; round < ROUNDS; ++round) {
    for (const [i, run] of runs.entries()) {
      const start = performance.now();
      await run();
      if (round >= 0) times[i].push(performance.now() - start);
    }
  }
  const [a, b, c] = times.map((t) => t.sort((p, q) => p - q)[ROUNDS >> 1]);
  const difference = largestDifference(await copied(), await other());
  console.log(
    `${name.padEnd(30)} in place ${a.toFixed(2)} ms, with copies ${b.toFixed(2)} ms, ` +
      `onnxruntime-web ${c.toFixed(2)} ms (${(c / b).toFixed(1)} to ${(c / a).toFixed(1)} times); ` +
      `outputs differ by at most ${difference.toExponential(0)}`,
  );
}

function largestDifference(a, b) {
  return a.reduce((most, v, i) => Math.max(most, Math.abs(v - b[i])), 0);
}

function addnorm() {
  const path = new URL('../../build/wasm/bin/addnorm.wasm', import.meta.url);
  const instance = new Instance(new WebAssembly.Module(readFileSync(path)));
  const { memory, addnorm_add_norm_forward: forward } = instance.exports;
  const arena = new Arena(instance);
  const [px, pb, pg, pt] = [x, branch, gamma, beta].map((values) => arena.put(values));
  const [sum, y] = [arena.like(x), arena.like(x)];
  const shared = { rows: ROWS, features: COLS, 'add.x': px, gamma: pg, beta: pt, y };
  const argsOf = (fields) => arena.struct('addnorm_add_norm_forward_args', { ...shared, ...fields });
  const [alone, added] = [argsOf({}), argsOf({ 'add.branch': pb, sum })];
  const at = (address) => new Float32Array(memory.buffer, address, SIZE);
  const norm = () => forward(alone);
  const addNorm = () => forward(added);
  return {
    norm,
    addNorm,
    normCopied: () => {
      at(px).set(x);
      norm();
      return at(y).slice();
    },
    addNormCopied: () => {
      at(px).set(x);
      at(pb).set(branch);
      addNorm();
      return at(y).slice();
    },
  };
}

async function onnxruntime() {
  ort.env.wasm.numThreads = 1;
  const wide = [ROWS, COLS];
  const feeds = {
    x: new ort.Tensor('float32', x, wide),
    branch: new ort.Tensor('float32', branch, wide),
    gamma: new ort.Tensor('float32', gamma, [COLS]),
    beta: new ort.Tensor('float32', beta, [COLS]),
  };
  const session = async (names, nodes) => {
    const inputs = names.map((name) => [name, feeds[name].dims]);
    const bytes = model({ nodes, inputs, outputs: [['y', wide]] });
    const created = await ort.InferenceSession.create(bytes, { executionProviders: ['wasm'] });
    const given = Object.fromEntries(names.map((name) => [name, feeds[name]]));
    return async () => (await created.run(given)).y.data;
  };
  const all = ['x', 'branch', 'gamma', 'beta'];
  const norm = (input) => ({ op: 'LayerNormalization', inputs: [input, 'gamma', 'beta'], outputs: ['y'] });
  return {
    norm: await session(['x', 'gamma', 'beta'], [norm('x')]),
    addNorm: await session(all, [
      { op: 'Add', inputs: ['x', 'branch'], outputs: ['sum'] },
      norm('sum'),
    ]),
    skipNorm: await session(all, [
      { op: 'SkipLayerNormalization', inputs: all, outputs: ['y'], domain: 'com.microsoft' },
    ]),
  };
}
