// Compares the weights that the kernels reveal with softmax(q·kᵀ/√d) in float64.

import { beforeAll, expect, test } from 'vitest';
import { loadKernels, setKernels } from '../../kernels/current';
import { normal } from '../../ui/random';
import { attentionOf, firstBlock, WIDTH } from './mask';
import { TOKENS } from './state';

beforeAll(async () => {
  setKernels(await loadKernels());
});

const tokens = Array.from({ length: TOKENS }, (_, t) => t);

/** The tokens that attention reads: normalized for pre-norm. */
function read(placement: 'pre' | 'post'): number[][] {
  const draw = normal(3);
  const x = tokens.map(() => Array.from({ length: WIDTH }, () => Math.fround(draw())));
  if (placement === 'post') return x;
  return x.map((row) => {
    const mean = row.reduce((a, b) => a + b) / WIDTH;
    const variance = row.reduce((a, b) => a + (b - mean) ** 2, 0) / WIDTH;
    return row.map((v) => (v - mean) / Math.sqrt(variance + 1e-5));
  });
}

function expected(placement: 'pre' | 'post', causal: boolean): number[][] {
  const block = firstBlock(placement);
  const p = block.parameters();
  const linear = (name: string) => (row: number[]) =>
    Array.from(p[`attention.${name}.bias`], (bias, i) =>
      row.reduce((sum, v, j) => sum + v * p[`attention.${name}.weight`][i * WIDTH + j], bias),
    );
  const h = read(placement);
  const [q, k] = ['query', 'key'].map((name) => h.map(linear(name)));
  return tokens.map((t) => {
    const e = tokens.map((s) =>
      causal && s > t
        ? 0
        : Math.exp(q[t].reduce((sum, v, i) => sum + v * k[s][i], 0) / WIDTH ** 0.5),
    );
    return e.map((v) => v / e.reduce((a, b) => a + b));
  });
}

test.each([
  ['pre', false],
  ['pre', true],
  ['post', false],
  ['post', true],
] as const)('weights, %s, causal %s', (placement, causal) => {
  const { weights } = attentionOf(placement, causal, 2);
  const wanted = expected(placement, causal);
  const worst = weights.flatMap((row, t) => row.map((v, s) => Math.abs(v - wanted[t][s])));
  expect(worst).toHaveLength(TOKENS ** 2);
  expect(Math.max(...worst)).toBeLessThan(1e-5);
});

test.each(['pre', 'post'] as const)('who changes, %s', (placement) => {
  for (const replaced of tokens) {
    const { changes } = attentionOf(placement, true, replaced);
    expect(changes.map((change) => change !== 0)).toEqual(tokens.map((t) => t >= replaced));
    expect(attentionOf(placement, false, replaced).changes.every((v) => v > 1e-3)).toBe(true);
  }
});
