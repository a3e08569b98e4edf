// Checks placements and sessions in Node. They equal the native program's up to the order of
// summation in products.

import { readFileSync, writeFileSync } from 'node:fs';
import { beforeAll, describe, expect, test } from 'vitest';
import { draw, native, withFolder } from '../../packages/addnorm/test/native';
import { byLayer } from '../hero/by-layer';
import type { Kernels } from './kernels';
import { loadKernels } from './current';

let kernels: Kernels;
beforeAll(async () => {
  kernels = await loadKernels();
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
  test('the table has the columns of every placement', () => {
    const table = placements();
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
          '--lr',
          options.learningRate,
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

  test('how far layers turn the stream', () => {
    const measured = (name: string, layers = 3) => {
      const session = kernels.session(
        placements()[name],
        { ...options, layers, initialization: 'xavier' },
        new TextEncoder().encode(text),
      );
      const found = session.measure();
      session.destroy();
      return found;
    };
    for (const angle of measured('rezero').turn) expect(angle).toBeLessThan(0.1); // F starts at 0
    expect(measured('post').turn).toHaveLength(3);
    expect(measured('pre', 2).turn).toEqual(measured('pre').turn.slice(0, 2)); // the same weights
    const falls = (name: string) => {
      const { turn } = measured(name, 24);
      const sum = (angles: number[]) => angles.reduce((a, b) => a + b);
      return sum(turn.slice(-4)) / sum(turn.slice(0, 4));
    };
    expect(falls('pre')).toBeLessThan(0.6);
    expect(falls('post')).toBeGreaterThan(0.8);
  });

  test('a text that is too short is an error in the library’s words', () => {
    const text = new TextEncoder().encode('short');
    expect(() => kernels.session(placements().pre, options, text)).toThrow(/the text has 5 bytes/);
  });

  test('sessions end with the first of their calls that fails, and with no other', () => {
    const session = sessionOf('pre');
    session.step();
    const x = Float64Array.of(1);
    expect(() => kernels.addNorm(x, null, { features: 1, epsilon: NaN })).toThrow(/eps/);
    expect(session.step()).toBeGreaterThan(0);
    expect(() => kernels.session(placements().pre, options, new Uint8Array(5))).toThrow(/5 bytes/);
    expect(() => session.step()).toThrow(/ended with an earlier error/);
    session.destroy();
    expect(sessionOf('pre').step()).toBeGreaterThan(0);
  });

  test.each(['layer', 'rms'] as const)('a session can have %s norms', (norm) => {
    const text = new TextEncoder().encode(
      'the quick brown fox jumps over the lazy dog. '.repeat(40),
    );
    const session = kernels.session(placements().post, { ...options, norm }, text);
    expect(session.measure().stream).toHaveLength(4);
    session.destroy();
  });

  test('a sentence is measured as a session measures a window', () => {
    const bytes = (length: number) => new Uint8Array(length).fill(97); // all windows are equal
    const sameWindow = { ...options, batch: 1 };
    const { pre } = placements();
    const session = kernels.session(pre, sameWindow, bytes(400));
    const expected = session.measure();
    session.destroy();
    const sentence = kernels.measureSentence(pre, sameWindow, bytes(options.context + 1));
    const measured = byLayer(sentence);
    expect(measured.loss).toBe(expected.loss);
    close(measured.stream, expected.stream);
    close(measured.gradient, expected.gradient);
    close(measured.tokenCosine, expected.tokenCosine);
    expect(sentence.cosine[1]).toBe(sentence.cosine[options.context]);
    expect(() => kernels.measureSentence(pre, sameWindow, bytes(5))).toThrow(
      'a sentence of 5 bytes is no window for a context of 16',
    );
  });
});
