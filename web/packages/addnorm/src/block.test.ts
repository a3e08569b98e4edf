// Compares blocks with PyTorch's golden files, and with the formulas written out in float64.

import { readFileSync } from 'node:fs';
import { beforeAll, describe, expect, test } from 'vitest';
import { draw, root } from '../test/native.js';
import { difference, reference, type Setting } from '../test/reference.js';
import { Instance } from './instance.js';
import {
  type AddNorm,
  type BlockOptions,
  KernelError,
  load,
  type BlockParameters,
} from './index.js';

let addnorm: AddNorm;
beforeAll(async () => {
  addnorm = await load(readFileSync(`${root}build/wasm/bin/addnorm.wasm`));
});

/** The tensors of a safetensors file, by name. */
function readTensors(path: string): Map<string, { shape: number[]; values: Float32Array }> {
  const bytes = readFileSync(path);
  const start = 8 + Number(bytes.readBigUInt64LE());
  const header = JSON.parse(bytes.toString('utf8', 8, start));
  const tensor = ([name, { shape, data_offsets }]: [string, any]) => {
    const [begin, end] = data_offsets.map((offset: number) => start + offset);
    return [
      name,
      {
        shape,
        values: new Float32Array(
          bytes.buffer.slice(begin + bytes.byteOffset, end + bytes.byteOffset),
        ),
      },
    ];
  };
  return new Map(Object.entries(header).map(tensor as never));
}

describe('beside PyTorch', () => {
  const document = { epsilon: 1e-6, epsilonAt: 'deviation', variance: 'unbiased' } as const;
  test.each<[file: string, options: Partial<BlockOptions>]>([
    ['post_relu', { placement: 'post', feedForward: 'relu' }],
    ['post_gelu', { placement: 'post' }],
    ['pre_relu', { placement: 'pre', feedForward: 'relu' }],
    ['pre_gelu', {}],
    ['document_block', { feedForward: 'relu', norm: document }],
  ])('%s', (file, options) => {
    const tensors = readTensors(`${root}tests/golden/data/${file}.safetensors`);
    const values = (name: string) => tensors.get(name)!.values;
    const [, length, dModel] = tensors.get('output')!.shape;
    const block = addnorm.block({ dModel, heads: 4, dFf: 36, ...options });
    const names = Object.keys(block.shapes);
    block.setParameters(
      Object.fromEntries(names.map((name) => [name, values(`value.layers.0.${name}`)])),
    );
    expect(difference(block.forward(values('value.x'), { length }), values('output'))).toBeLessThan(
      1e-5,
    );
    const { dx, gradients } = block.backward(values('d_output'));
    expect(difference(dx, values('gradient.x'))).toBeLessThan(1e-5);
    for (const name of names) {
      const expected = values(`gradient.layers.0.${name}`);
      const scale = Math.max(...expected.map(Math.abs), ...dx.map(Math.abs)); // a gradient may be 0
      expect(difference(gradients[name], expected, scale), name).toBeLessThan(1e-5);
    }
  });

  test('the first weights are those after torch.manual_seed(0)', () => {
    const { 'attention.query.weight': weight } = addnorm
      .block({ dModel: 4, heads: 1, dFf: 4 })
      .parameters();
    // torch.rand(5); a weight is (2·u − 1)/√4
    [0.496256589, 0.768221796, 0.0884774327, 0.132030487, 0.307422817].forEach((u, i) =>
      expect(weight[i]).toBeCloseTo(u - 0.5, 7),
    );
  });
});

const SIZES = { dModel: 8, heads: 2, dFf: 12, layer: 3, layers: 5 };
const [BATCH, LENGTH] = [2, 5];

describe('beside float64', () => {
  const settings: Setting[] = [
    { placement: 'none' },
    { placement: 'plain', feedForward: 'gelu-tanh' },
    { placement: 'post', feedForward: 'gelu' },
    { placement: 'pre', feedForward: 'relu', causal: true },
    { placement: 'sandwich', feedForward: 'swiglu', kind: 'rms', causal: true },
    { placement: 'reordered', feedForward: 'geglu-tanh', kind: 'rms' },
    { placement: 'pre', feedForward: 'clamped-swiglu', kind: 'rms' },
    { placement: 'deepnorm' },
    { placement: 'rezero' },
    { placement: 'layerscale' },
    { placement: 'depth-scaled' },
    { placement: 'admin' },
    { placement: 'scaled-branch' },
    { placement: 'post/pre', feedForward: 'relu' },
  ];
  test.each(settings)('%o: forward and the gradients along a direction', (setting) => {
    const { placement, feedForward = 'gelu', kind = 'layer', causal = false } = setting;
    const block = addnorm.block({ ...SIZES, placement, feedForward, norm: { kind }, seed: 7 });
    const noise = (n: number, seed: number) => draw(n, seed).map((v) => Math.sin(1e3 * v));
    const size = BATCH * LENGTH * SIZES.dModel;
    const at: Record<string, Float64Array> = { x: noise(size, 1) };
    const along: Record<string, Float64Array> = { x: noise(size, 2) };
    for (const [i, [name, values]] of Object.entries(block.parameters()).entries()) {
      at[name] = noise(values.length, 100 + i).map((v, j) => values[j] + 0.1 * v);
      along[name] = noise(values.length, 200 + i);
    }
    const floats = Object.entries(at).map(([name, v]) => [name, Float32Array.from(v)] as const);
    const { x, ...parameters } = Object.fromEntries(floats) as BlockParameters;
    block.setParameters(parameters);
    expect(block.parameters()).toEqual(parameters);

    const dy = noise(size, 3);
    const y = block.forward(x, { length: LENGTH, causal });
    const { dx, gradients } = block.backward(Float32Array.from(dy));

    const shape = { ...SIZES, length: LENGTH };
    const moved = (t: number) =>
      Object.fromEntries(
        floats.map(([name, v]) => [name, Float64Array.from(v, (u, i) => u + t * along[name][i])]),
      );
    expect(difference(y, reference(moved(0), shape, setting))).toBeLessThan(1e-5);
    const loss = (t: number) => dot(reference(moved(t), shape, setting), dy);
    for (const [name, gradient] of Object.entries({ x: dx, ...gradients })) {
      const only = (t: number) => ({ ...moved(0), [name]: moved(t)[name] });
      const slope =
        (dot(reference(only(1e-5), shape, setting), dy) -
          dot(reference(only(-1e-5), shape, setting), dy)) /
        2e-5;
      const scale = (Math.hypot(...gradient) + Math.hypot(...dx)) * Math.hypot(...along[name]);
      expect(Math.abs(dot(gradient, along[name]) - slope) / scale, name).toBeLessThan(1e-5);
    }
    expect(block.backward(Float32Array.from(dy))).toEqual({ dx, gradients }); // no accumulation
    expect(Number.isFinite(loss(0))).toBe(true);
  });
});

function dot(a: ArrayLike<number>, b: ArrayLike<number>): number {
  return Array.from(a).reduce((sum, v, i) => sum + v * b[i], 0);
}

test('a block evaluates: every sequence keeps every branch', () => {
  const x = Float32Array.from(draw(100 * 8, 1));
  const [all, kept] = ['pre', 'stochastic-depth'].map((placement) =>
    addnorm.block({ ...SIZES, placement, layer: 5, seed: 7 }).forward(x, { length: 1 }),
  );
  expect(kept).toEqual(all);
});

test('a sequence does not see another, nor a later token where it is causal', () => {
  const block = addnorm.block({ dModel: 8, heads: 2, dFf: 12 });
  const x = Float32Array.from(draw(48, 1));
  const other = x.map((v, i) => (i < 40 ? v : 2 * v + 1));
  const [a, b] = [x, other].map((values) => block.forward(values, { length: 3, causal: true }));
  expect(b.subarray(0, 40)).toEqual(a.subarray(0, 40));
  expect(block.forward(other, { length: 3 }).subarray(0, 24)).toEqual(
    block.forward(x, { length: 3 }).subarray(0, 24),
  );
  expect(block.forward(other).subarray(0, 24)).not.toEqual(block.forward(x).subarray(0, 24));
});

test('where there is no memory left, a sentence says so', () => {
  const instance = new Instance(addnorm.module);
  const options = { dModel: 8192, heads: 1, dFf: 1, layer: 1, layers: 1 };
  const create = () =>
    instance.call((arena) => {
      for (let i = 0; i < 2; ++i) arena.reserve(1.9 * 2 ** 30); // of 4 GB available
      const placement = new TextEncoder().encode('pre');
      const address = arena.struct('ModuleBlockOptions', options);
      arena.exports.block_create(address, arena.put(placement), placement.length);
    });
  expect(create).toThrow(new KernelError('there is no memory left'));
});

test('a block that was disposed of says so', () => {
  const block = addnorm.block({ dModel: 4, heads: 1, dFf: 4 });
  block.dispose();
  expect(() => block.forward(new Float32Array(4))).toThrow('the block was disposed of');
});

describe('what cannot be used is a sentence', () => {
  const block = (options: object) => addnorm.block({ dModel: 4, heads: 2, dFf: 8, ...options });
  const x = new Float32Array(12);
  const calls: [sentence: string, call: () => unknown][] = [
    ['dModel is 0', () => block({ dModel: 0 })],
    ['dModel is NaN', () => block({ dModel: NaN })],
    ['heads is 3, must divide dModel, which is 4', () => block({ heads: 3 })],
    ['dFf is "8", must be a whole number', () => block({ dFf: '8' })],
    [
      'weights of 65536 × 65536 values do not fit into memory',
      () => block({ dModel: 65536, dFf: 1 }),
    ],
    ['placement "before" is unknown', () => block({ placement: 'before' })],
    ['placement', () => block({ placement: 'post:3' })],
    ['placement', () => block({ placement: '' })],
    ['placement is 3, must be a string', () => block({ placement: 3 })],
    ['feedForward is "tanh", must be one of "relu"', () => block({ feedForward: 'tanh' })],
    ['initialization is "he"', () => block({ initialization: 'he' })],
    ['seed is -1', () => block({ seed: -1 })],
    ['layer is 3, must be one of 2', () => block({ layer: 3, layers: 2 })],
    ['kind of a block’s norm is "batch"', () => block({ norm: { kind: 'batch' } })],
    ['there is no option "eps"', () => block({ norm: { eps: 1e-6 } })],
    ['options are "rms", must be an object', () => block({ norm: 'rms' })],
    ['there is no option "dropout"', () => block({ dropout: 0.1 })],
    ['options are undefined', () => addnorm.block(undefined as never)],
    ['x has 11 values, must have rows of 4', () => block({}).forward(x.subarray(1))],
    ['x is empty', () => block({}).forward(new Float32Array())],
    [
      'x is of type Float64Array, must be a Float32Array',
      () => block({}).forward(new Float64Array(12) as never),
    ],
    ['x has 3 rows, must have sequences of 2', () => block({}).forward(x, { length: 2 })],
    ['length is 0', () => block({}).forward(x, { length: 0 })],
    ['causal is 1, must be a boolean', () => block({}).forward(x, { causal: 1 as never })],
    [
      'activations of 600 × 1048576 values do not fit into memory',
      () => block({ dModel: 1, heads: 1, dFf: 2 ** 20 }).forward(new Float32Array(600)),
    ],
    ['backward needs a forward before it', () => block({}).backward(x)],
    ['there is no option "weight"', () => block({}).setParameters({ weight: x })],
    [
      'attention.query.weight has 12 values, must have 16',
      () => block({}).setParameters({ 'attention.query.weight': x }),
    ],
    [
      'attention.query.weight is undefined',
      () => block({}).setParameters({ 'attention.query.weight': undefined as never }),
    ],
  ];
  test.each(calls)('%s', (sentence, call) => {
    expect(call).toThrow(KernelError);
    expect(call).toThrow(sentence);
  });

  test('and the block goes on', () => {
    const it = block({});
    const y = it.forward(x);
    expect(() => it.backward(new Float32Array(8))).toThrow('dy has 8 values, must have 12');
    expect(() => it.forward(x, { length: 5 })).toThrow(KernelError);
    expect(it.forward(x)).toEqual(y);
    expect(it.backward(x).dx).toEqual(x);
  });
});
