// Norms in Node: results equal the native program's bit for bit, and every
// invalid argument gives a message.

import { readFileSync } from 'node:fs';
import { beforeAll, describe, expect, test } from 'vitest';
import { draw, native, nativeNorm, root } from '../test/native.js';
import { type AddNorm, KernelError, load, type NormOptions } from './index.js';
import { Instance, type Values } from './instance.js';

const WASM = readFileSync(`${root}build/wasm/bin/addnorm.wasm`);

let addnorm: AddNorm;
beforeAll(async () => {
  addnorm = await load(WASM);
});

const float = (n: number, seed: number) => Float32Array.from(draw(n, seed));

const optionSets: NormOptions[] = [
  {},
  { kind: 'rms' },
  { epsilon: 1e-8 },
  { epsilon: 1e-6, epsilonAt: 'deviation', variance: 'unbiased' },
  { kind: 'rms', epsilon: 0.1, gammaForm: 'one_plus' },
];

/** The flags of `addnorm norm` and `addnorm trace` for these options. */
function flags(o: NormOptions): (string | number)[] {
  return [
    ...(o.epsilon === undefined ? [] : ['--eps', o.epsilon]),
    ...(o.epsilonAt === undefined ? [] : ['--eps-at', o.epsilonAt]),
    ...(o.variance === undefined ? [] : ['--variance', o.variance]),
  ];
}

test('the module imports nothing', () => {
  expect(WebAssembly.Module.imports(addnorm.module)).toEqual([]);
});

describe('float64, beside addnorm trace: the same bits', () => {
  const traced = optionSets.filter((o) => o.gammaForm === undefined);
  test.each(traced)('%o', (options) => {
    for (const n of [1, 2, 4, 5, 37, 300]) {
      if (n === 1 && options.variance === 'unbiased') continue;
      const [x, branch] = [draw(n, n), draw(n, n + 1000)];
      const [gamma, beta] = [1.3, -0.7];
      const affine = ['--gamma', gamma, '--beta', beta, '--norm', options.kind ?? 'layer'];
      const json = native(
        'trace',
        ...x,
        '--branch',
        ...branch,
        ...affine,
        ...flags(options),
        '--json',
      );
      const expected = JSON.parse(json);
      const { y, sum, statistics } = addnorm.addNorm(x, branch, {
        ...options,
        features: n,
        gamma: new Float64Array(n).fill(gamma),
        beta: new Float64Array(n).fill(beta),
      });
      expect(Array.from(sum)).toEqual(expected.sum);
      expect(Array.from(y)).toEqual(expected.output);
      const { mean, variance, deviation } = statistics;
      expect([mean[0], variance[0], deviation[0]]).toEqual([
        expected.mean,
        expected.variance,
        expected.deviation,
      ]);
      const normalized = addnorm.addNorm(sum, null, { ...options, features: n }).y;
      expect(Array.from(normalized)).toEqual(expected.normalized);
    }
  });
});

describe('float32, beside addnorm norm: the same bits', () => {
  const [rows, channels, positions] = [6, 8, 9];
  const features = channels * positions;
  const size = rows * features;
  const [x, dy] = [float(size, 1), float(size, 2)];
  const kinds: NormOptions[] = [
    ...optionSets,
    { kind: 'batch' },
    { kind: 'instance' },
    { kind: 'group', groups: 4 },
    { kind: 'group', groups: 2, epsilon: 1e-3, variance: 'unbiased' },
  ];
  test.each(kinds)('forward and backward of %o', (options) => {
    const { kind = 'layer' } = options;
    const ofRows = kind === 'layer' || kind === 'rms';
    const shape = ofRows ? [rows, features] : [rows, channels, positions];
    const parameters = ofRows ? features : channels;
    const [gamma, beta] = [float(parameters, 3), float(parameters, 4)];
    const [y, dx, dGamma, dBeta] = nativeNorm(
      {
        input: [x, ...shape],
        'grad-output': [dy, ...shape],
        gamma: [gamma, parameters],
        beta: [beta, parameters],
      },
      ['output', 'grad-input', 'grad-gamma', 'grad-beta'],
      [
        ...['--kind', kind, ...flags(options)],
        ...(options.groups ? ['--groups', options.groups] : []),
        ...(options.gammaForm === 'one_plus' ? ['--unit-offset'] : []),
      ],
    );
    const all = { ...options, features, channels };
    expect(addnorm.addNorm(x, null, { ...all, gamma, beta }).y).toEqual(y);
    expect(addnorm.addNormBackward(dy, x, { ...all, gamma })).toEqual({ dx, dGamma, dBeta });

    const dResidual = float(size, 5);
    const past = addnorm.addNormBackward(dy, x, { ...all, gamma, dResidual });
    const scale = Math.max(...dResidual.map(Math.abs), ...dx.map(Math.abs));
    past.dx.forEach((v, i) =>
      expect(Math.abs(v - dx[i] - dResidual[i]) / scale).toBeLessThan(1e-6),
    );
    expect(past.dGamma).toEqual(dGamma);
  });

  test('add and norm in one pass; a view reads no more than it shows', () => {
    const branch = float(size, 2);
    const input = { input: [x, rows, features], residual: [branch, rows, features] } as const;
    const [y, sum] = nativeNorm(input as never, ['output', 'sum']);
    const view = new Float32Array([NaN, ...x, NaN]).subarray(1, size + 1);
    expect(addnorm.addNorm(view, branch, { rows, features })).toMatchObject({ y, sum });
    expect(addnorm.addNorm(view, null, { features }).sum).toEqual(x);
  });

  test.each(['layer', 'rms'] as const)('%sNorm is addNorm without a branch', (kind) => {
    const [forward, backward] = [`${kind}Norm`, `${kind}NormBackward`] as const;
    const options = { features, gamma: float(features, 3), epsilon: 1e-3 };
    const beta = float(features, 4);
    expect(addnorm[forward](x, { ...options, beta })).toEqual(
      addnorm.addNorm(x, null, { ...options, beta, kind }).y,
    );
    expect(addnorm[backward](dy, x, options)).toEqual(
      addnorm.addNormBackward(dy, x, { ...options, kind }),
    );
  });
});

test('whatever stands where something else should, what is thrown is a KernelError', () => {
  const pick = <T>(from: readonly T[], random: number) => from[Math.trunc(random * from.length)];
  const random = (() => {
    const draws = draw(60_000, 1).map((v) => Math.abs(1e4 * v) % 1);
    let i = 0;
    return () => draws[i++ % draws.length];
  })();
  const odd = [
    ...[
      undefined,
      null,
      NaN,
      Infinity,
      -1,
      0,
      1,
      2,
      3,
      1.5,
      2 ** 32,
      10n,
      true,
      '4',
      'rms',
      'group',
    ],
    ...[
      Symbol.iterator,
      [],
      {},
      Object.create(null),
      new DataView(new ArrayBuffer(8)),
      new Date(0),
    ],
    ...[new Int8Array(8), new Float32Array(0), new Float32Array(4), new Float64Array(8)],
  ];
  const names = [
    'features',
    'rows',
    'channels',
    'kind',
    'epsilon',
    'groups',
    'gamma',
    'beta',
    'eps',
  ];
  const values = () => (random() < 0.2 ? pick(odd, random()) : float(8, 1));
  const options = () => {
    if (random() < 0.1) return pick(odd, random());
    const changed = names.filter(() => random() < 0.1).map((name) => [name, pick(odd, random())]);
    return { features: 4, ...Object.fromEntries(changed) };
  };
  const calls = [
    () => addnorm.layerNorm(values() as never, options() as never),
    () => addnorm.addNorm(values() as never, values() as never, options() as never),
    () => addnorm.addNormBackward(values() as never, values() as never, options() as never),
    () =>
      addnorm.block({ dModel: 4, heads: 2, dFf: 4, seed: 1, ...(options() as object) } as never),
    () =>
      addnorm.block({ dModel: 4, heads: 2, dFf: 4 }).forward(values() as never, options() as never),
  ];
  const outcomes = Array.from({ length: 3000 }, () => {
    try {
      pick(calls, random())();
      return 'result';
    } catch (error) {
      return error instanceof KernelError ? 'KernelError' : error;
    }
  });
  expect(new Set(outcomes)).toEqual(new Set(['result', 'KernelError']));
});

test('values beyond the squares are rescaled', () => {
  const norm = (x: number[], epsilon: number) =>
    addnorm.addNorm(Float64Array.from(x), null, { features: 4, epsilon });
  const large = norm([1e300, -1e300, 2e300, 0], 1e-5);
  const small = norm([1, -1, 2, 0], 0);
  large.y.forEach((v, i) => expect(v).toBeCloseTo(small.y[i], 12));
  const ratio = large.statistics.deviation[0] / small.statistics.deviation[0];
  expect(ratio / 1e300).toBeCloseTo(1, 12);
});

test('a value that is not finite makes its row NaN, and no other', () => {
  const y = addnorm.layerNorm(Float32Array.of(1, 2, 3, NaN, 2, 3, 1, 2, Infinity), { features: 3 });
  expect(Array.from(y.subarray(3))).toEqual(Array(6).fill(NaN));
  expect(y.subarray(0, 3).every(Number.isFinite)).toBe(true);
});

describe('what cannot be used is a sentence, and the next call works', () => {
  const x = Float32Array.of(1, 2, 3, 4, 5, 6);
  const f = (n: number) => new Float32Array(n);
  const good = { features: 3 };
  const calls: [sentence: string, call: () => unknown][] = [
    [
      'features is undefined, must be a whole number from 1',
      () => addnorm.layerNorm(x, {} as never),
    ],
    ['features is undefined', () => addnorm.rmsNorm(x, undefined as never)],
    [
      'options are undefined, must be an object',
      () => addnorm.addNorm(x, null, undefined as never),
    ],
    ['features is NaN', () => addnorm.layerNorm(x, { features: NaN })],
    ['features is 0', () => addnorm.layerNorm(x, { features: 0 })],
    ['features is -3', () => addnorm.layerNorm(x, { features: -3 })],
    ['features is 1.5', () => addnorm.layerNorm(x, { features: 1.5 })],
    ['features is "3"', () => addnorm.layerNorm(x, { features: '3' as never })],
    ['features is Infinity', () => addnorm.layerNorm(x, { features: Infinity })],
    ['features is 4294967296', () => addnorm.layerNorm(x, { features: 2 ** 32 })],
    ['x has 6 values, must have whole rows of 4', () => addnorm.layerNorm(x, { features: 4 })],
    ['x has 6 values, must have 3 rows of 3', () => addnorm.layerNorm(x, { ...good, rows: 3 })],
    ['rows is NaN, must be a whole number', () => addnorm.layerNorm(x, { ...good, rows: NaN })],
    ['x is empty', () => addnorm.layerNorm(f(0), good)],
    [
      'x is undefined, must be a Float32Array or a Float64Array',
      () => addnorm.layerNorm(undefined as never, good),
    ],
    ['x is of type Array', () => addnorm.layerNorm([1, 2, 3] as never, good)],
    ['x is of type Int32Array', () => addnorm.layerNorm(new Int32Array(3) as never, good)],
    ['x is of type ArrayBuffer', () => addnorm.layerNorm(x.buffer as never, good)],
    ['gamma has 2 values, must have 3', () => addnorm.layerNorm(x, { ...good, gamma: f(2) })],
    [
      'gamma is of type Float64Array, must be a Float32Array',
      () => addnorm.layerNorm<Values>(x, { ...good, gamma: new Float64Array(3) }),
    ],
    ['gamma is 1', () => addnorm.layerNorm(x, { ...good, gamma: 1 as never })],
    ['beta has 4 values, must have 3', () => addnorm.layerNorm(x, { ...good, beta: f(4) })],
    ['branch has 3 values, must have 6', () => addnorm.addNorm(x, f(3), good)],
    ['branch is of type Array', () => addnorm.addNorm(x, [1] as never, good)],
    [
      'there is no option "eps"; there are kind, epsilon',
      () => addnorm.layerNorm(x, { ...good, eps: 1 } as never),
    ],
    [
      'epsilon is "1e-5", must be a number',
      () => addnorm.layerNorm(x, { ...good, epsilon: '1e-5' as never }),
    ],
    ['epsilon is nan', () => addnorm.layerNorm(x, { ...good, epsilon: NaN })],
    ['epsilon is -1', () => addnorm.layerNorm(x, { ...good, epsilon: -1 })],
    [
      'kind is "layers", must be one of "layer", "rms"',
      () => addnorm.addNorm(x, null, { ...good, kind: 'layers' as never }),
    ],
    [
      'layerNorm has no option "kind"; addNorm has',
      () => addnorm.layerNorm(x, { ...good, kind: 'rms' } as never),
    ],
    [
      'rmsNorm has no option "kind"',
      () => addnorm.rmsNormBackward(x, x, { ...good, kind: 'layer' } as never),
    ],
    [
      'variance is "sample"',
      () => addnorm.addNorm(x, null, { ...good, variance: 'sample' as never }),
    ],
    ['unbiased', () => addnorm.addNorm(x, null, { features: 1, variance: 'unbiased' })],
    [
      'channels is 2, must divide the 3 features',
      () => addnorm.addNorm(x, null, { ...good, kind: 'batch', channels: 2 }),
    ],
    [
      'there are 2 groups, they must divide the 3 channels',
      () => addnorm.addNorm(x, null, { ...good, kind: 'group', groups: 2 }),
    ],
    [
      'groups is 1.5, must be a whole number',
      () => addnorm.addNorm(x, null, { ...good, kind: 'group', groups: 1.5 }),
    ],
    [
      'gamma has 3 values, must have 1',
      () => addnorm.addNorm(x, null, { ...good, kind: 'batch', channels: 1, gamma: f(3) }),
    ],
    ['dy has 3 values, must have 6', () => addnorm.layerNormBackward(f(3), x, good)],
    ['dy is undefined', () => addnorm.layerNormBackward(undefined as never, x, good)],
    ['x has 5 values', () => addnorm.rmsNormBackward(f(5), f(5), good)],
    ['sum has 5 values', () => addnorm.addNormBackward(f(5), f(5), good)],
    [
      'dResidual has 1 values',
      () => addnorm.addNormBackward(f(6), x, { ...good, dResidual: f(1) }),
    ],
    [
      'there is no option "beta"',
      () => addnorm.addNormBackward(f(6), x, { ...good, beta: f(3) } as never),
    ],
  ];
  test.each(calls)('%s', (sentence, call) => {
    expect(call).toThrow(KernelError);
    expect(call).toThrow(sentence);
    expect(call).not.toThrow(/norm_|_norm/); // the C function's name, not the caller's
    expect(addnorm.layerNorm(Float32Array.of(-1, 1), { features: 2, epsilon: 0 })).toEqual(
      Float32Array.of(-1, 1),
    );
  });
});

test('what a call has put into memory is given back', () => {
  const instance = new Instance(addnorm.module);
  for (let i = 0; i < 10; ++i) instance.call((arena) => arena.reserve(2 ** 30)); // 2³² bytes
  expect(() => instance.call((arena) => arena.reserve(2 ** 31))).toThrow(
    'no memory for 2147483648',
  );
});

describe('load', () => {
  test('takes bytes, a compiled module, and a URL', async () => {
    const module = await WebAssembly.compile(WASM);
    const url = `data:application/wasm;base64,${WASM.toString('base64')}`;
    for (const source of [
      WASM,
      module,
      url,
      new URL(url),
      new URL(`file://${root}build/wasm/bin/addnorm.wasm`),
    ]) {
      const loaded = await load(source);
      expect(loaded.rmsNorm(Float64Array.of(3), { features: 1, epsilon: 0 })[0]).toBe(1);
    }
  });

  const empty = Uint8Array.of(0, 97, 115, 109, 1, 0, 0, 0);
  test.each([
    [/could not be loaded from file:.*none\.wasm: ENOENT/, new URL('file:///none.wasm')],
    [/could not be loaded from http:/, 'http://127.0.0.1:1/addnorm.wasm'],
    [/are no WebAssembly module/, Uint8Array.of(1, 2, 3)],
    [/is not addnorm\.wasm/, empty],
    [/no WebAssembly module/, 42 as never],
  ])('%s', async (sentence, source) => {
    const failed = load(source);
    await expect(failed).rejects.toThrow(KernelError);
    await expect(failed).rejects.toThrow(sentence);
  });
});
