// The module in Node: for the norms the same bits as the native program, for models the same
// numbers up to the order of the products' sums.

import { readFileSync, writeFileSync } from 'node:fs';
import { beforeAll, describe, expect, test } from 'vitest';
import { KernelError } from './instance';
import { type Kernels, type Kind, type NormOptions, type Shape } from './kernels';
import { loadKernels, loadModule, native, readNpy, withFolder, writeNpy } from './native';

let kernels: Kernels;
beforeAll(async () => {
  kernels = await loadKernels();
});

/** Deterministic values of mixed size (Park and Miller 1988). */
function draw(n: number, seed: number): Float64Array {
  let state = seed;
  const next = () => (state = (state * 48271) % 2147483647) / 2147483647;
  return Float64Array.from({ length: n }, () => (next() - 0.5) * 10 ** Math.round(4 * next() - 2));
}

const optionSets: NormOptions[] = [
  {},
  { kind: 'rms' },
  { epsilon: 1e-8 },
  { epsilon: 1e-6, epsilonAt: 'deviation', variance: 'unbiased' },
  { kind: 'rms', epsilon: 0.1, gammaForm: 'one plus' },
];

/** The flags of `addnorm norm` and `addnorm trace` for these options. */
function flags(o: NormOptions): (string | number)[] {
  return [
    ...(o.epsilon === undefined ? [] : ['--eps', o.epsilon]),
    ...(o.epsilonAt === undefined ? [] : ['--eps-at', o.epsilonAt]),
    ...(o.variance === undefined ? [] : ['--variance', o.variance]),
  ];
}

test('the module imports nothing', async () => {
  for (const name of ['addnorm', 'lab'] as const) {
    expect(WebAssembly.Module.imports(await loadModule(name))).toEqual([]);
  }
});

describe('float64, beside addnorm trace: the same bits', () => {
  const traced = optionSets.filter((o) => o.gammaForm === undefined);
  test.each(traced)('%o', (options) => {
    for (const n of [1, 2, 4, 5, 37, 300]) {
      if (n === 1 && options.variance === 'unbiased') continue;
      const x = draw(n, n);
      const branch = draw(n, n + 1000);
      const [gamma, beta] = [1.3, -0.7];
      const text = native(
        'trace',
        ...x,
        '--branch',
        ...branch,
        '--gamma',
        gamma,
        '--beta',
        beta,
        '--norm',
        options.kind ?? 'layer',
        ...flags(options),
        '--json',
      );
      const expected = JSON.parse(text);
      const got = kernels.norm(
        options,
        { samples: 1, channels: n },
        {
          x,
          branch,
          gamma: new Float64Array(n).fill(gamma),
          beta: new Float64Array(n).fill(beta),
        },
      );
      expect(Array.from(got.sum)).toEqual(expected.sum);
      expect(Array.from(got.normalized)).toEqual(expected.normalized);
      expect(Array.from(got.output)).toEqual(expected.output);
      const { mean, variance, deviation } = expected;
      expect(got.statistics).toEqual([{ mean, variance, deviation }]);
    }
  });
});

describe('float32, beside addnorm norm: the same bits', () => {
  const shape: Shape = { samples: 6, channels: 8, positions: 9 };
  const kinds: NormOptions[] = [
    ...optionSets,
    { kind: 'batch' },
    { kind: 'instance' },
    { kind: 'group', groups: 4 },
    { kind: 'group', groups: 2, epsilon: 1e-3, variance: 'unbiased' },
  ];
  test.each(kinds)('forward and backward of %o', (options) => {
    const ofRows = !options.kind || options.kind === 'layer' || options.kind === 'rms';
    const dims = ofRows ? [6, 72] : [6, 8, 9];
    const size = 6 * 8 * 9;
    const parameters = ofRows ? 72 : 8;
    const float = (n: number, seed: number) => Float32Array.from(draw(n, seed));
    const [x, dy, gamma, beta] = [
      float(size, 1),
      float(size, 2),
      float(parameters, 3),
      float(parameters, 4),
    ];
    const { output } = kernels.norm(options, shape, { x, gamma, beta });
    const { dx, dGamma, dBeta } = kernels.normBackward(options, shape, { x, gamma, dy });
    withFolder((path) => {
      writeNpy(path('x'), dims, x);
      writeNpy(path('dy'), dims, dy);
      writeNpy(path('gamma'), [parameters], gamma);
      writeNpy(path('beta'), [parameters], beta);
      native(
        'norm',
        '--input',
        path('x'),
        '--output',
        path('y'),
        '--kind',
        options.kind ?? 'layer',
        ...flags(options),
        ...(options.groups ? ['--groups', options.groups] : []),
        ...(options.gammaForm === 'one plus' ? ['--unit-offset'] : []),
        '--gamma',
        path('gamma'),
        '--beta',
        path('beta'),
        '--grad-output',
        path('dy'),
        '--grad-input',
        path('dx'),
        '--grad-gamma',
        path('dg'),
        '--grad-beta',
        path('db'),
      );
      expect(output).toEqual(readNpy(path('y'), x));
      expect(dx).toEqual(readNpy(path('dx'), x));
      expect(dGamma).toEqual(readNpy(path('dg'), x));
      expect(dBeta).toEqual(readNpy(path('db'), x));
    });
  });

  test('add and norm in one pass', () => {
    const [x, branch] = [1, 2].map((seed) => Float32Array.from(draw(432, seed)));
    const { sum, output } = kernels.norm({}, shape, { x, branch });
    withFolder((path) => {
      writeNpy(path('x'), [6, 72], x);
      writeNpy(path('r'), [6, 72], branch);
      native(
        'norm',
        '--input',
        path('x'),
        '--residual',
        path('r'),
        '--sum',
        path('s'),
        '--output',
        path('y'),
      );
      expect(sum).toEqual(readNpy(path('s'), x));
      expect(output).toEqual(readNpy(path('y'), x));
    });
  });
});

const one = { samples: 1, channels: 1 };

describe('what the kernels cannot use', () => {
  test('becomes an error in their words, and the next call works', () => {
    const unbiased = () => kernels.norm({ variance: 'unbiased' }, one, { x: Float64Array.of(1) });
    expect(unbiased).toThrow(KernelError);
    expect(unbiased).toThrow(/unbiased/);
    expect(kernels.norm({}, one, { x: Float64Array.of(3) }).statistics[0].mean).toBe(3);
    expect(() => kernels.norm({ epsilon: NaN }, one, { x: Float64Array.of(1) })).toThrow(/eps/i);
    expect(() =>
      kernels.norm(
        { kind: 'group', groups: 3 },
        { samples: 1, channels: 4 },
        {
          x: new Float64Array(4),
        },
      ),
    ).toThrow(/group/);
  });

  test('is not a value beyond the squares, which is rescaled', () => {
    const x = Float64Array.of(1e300, -1e300, 2e300, 0);
    const { normalized, statistics } = kernels.norm({}, { samples: 1, channels: 4 }, { x });
    const small = kernels.norm(
      { epsilon: 0 },
      { samples: 1, channels: 4 },
      {
        x: Float64Array.of(1, -1, 2, 0),
      },
    );
    normalized.forEach((v, i) => expect(v).toBeCloseTo(small.normalized[i], 12));
    expect(statistics[0].deviation / 1e300).toBeCloseTo(small.statistics[0].deviation, 12);
  });

  test('a text that is too short for a session', () => {
    const { pre } = placements();
    const text = new TextEncoder().encode('short');
    expect(() => kernels.session(pre, options, text)).toThrow(/the text has 5 bytes/);
  });
});

const options = {
  layers: 3,
  width: 16,
  heads: 2,
  context: 16,
  batch: 4,
  learningRate: 2e-3,
  warmUp: 0,
  seed: 0,
  initialization: 'torch',
  norm: 'layer',
} as const;

function placements() {
  return Object.fromEntries(kernels.placements().map((p) => [p.name, p]));
}

describe('placements and sessions', () => {
  test('the table has its twelve rows', () => {
    const table = placements();
    expect(Object.keys(table)).toHaveLength(12);
    expect(table.pre).toMatchObject({ before: true, after: false, finalNorm: true });
    expect(table.deepnorm.formulas).toMatchObject({ skip: '(2N)^1/4', initialGain: '(8N)^-1/4' });
    expect(table.rezero.formulas.gain).toBe('learned scalar 0');
  });

  const words = ['the ', 'norm ', 'adds ', 'a ', 'row ', 'of ', 'x. '];
  const text = Array.from(draw(3000, 7), (v) => words[Math.trunc(Math.abs(v) * 1e4) % 7]).join('');
  const sessionOf = (name: string) =>
    kernels.session(placements()[name], options, new TextEncoder().encode(text));
  const close = (got: number[], expected: number[]) =>
    got.forEach((v, i) => expect(v / expected[i]).toBeCloseTo(1, 4));

  test.each(['plain', 'none', 'post', 'pre', 'sandwich', 'deepnorm', 'admin'])(
    'a session of %s measures and trains as addnorm study does',
    (name) => {
      const {
        runs,
        placements: findings,
        unigram_loss,
      } = withFolder((path) => {
        writeFileSync(path('text'), text);
        native(
          'study',
          '--text',
          path('text'),
          '--placement',
          name,
          '--layers',
          3,
          '--width',
          16,
          '--heads',
          2,
          '--context',
          16,
          '--batch',
          4,
          '--steps',
          6,
          '--seeds',
          1,
          '--warm-up',
          6,
          '--out',
          path('out'),
        );
        return JSON.parse(readFileSync(path('out/results.json'), 'utf8'));
      });
      const session = sessionOf(name);
      const { stream, gradient } = session.measure();
      close(stream, findings[0].stream_rms[0]);
      close(gradient, findings[0].gradient_rms[0]);
      close(Array.from({ length: 6 }, session.step), runs[0].losses);
      close([session.unigramLoss, session.parameters], [unigram_loss, runs[0].parameters]);
      session.destroy();
    },
  );

  test('a session ends with the instance that a failed call spoils', () => {
    const session = sessionOf('pre');
    session.step();
    expect(() => kernels.norm({ epsilon: NaN }, one, { x: Float64Array.of(1) })).toThrow();
    expect(() => session.step()).toThrow(/ended with an earlier error/);
    session.destroy();
    expect(sessionOf('pre').step()).toBeGreaterThan(0);
  });

  test.each<Kind>(['layer', 'rms'])('a session can have %s norms', (norm) => {
    const text = new TextEncoder().encode(
      'the quick brown fox jumps over the lazy dog. '.repeat(40),
    );
    const session = kernels.session(placements().post, { ...options, norm: norm as 'rms' }, text);
    expect(session.measure().stream).toHaveLength(4);
    session.destroy();
  });
});
