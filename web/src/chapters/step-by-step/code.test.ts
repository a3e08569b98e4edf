// Runs the chapter's code in every language and convention, and compares the results with the kernels.

import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { EPSILON_AT, type NormOptions, VARIANCES } from 'addnorm';
import { beforeAll, describe, expect, test } from 'vitest';
import { loadKernels, setKernels } from '../../kernels/current';
import { addNormToken } from '../../kernels/token';
import { TOKEN_NORMS } from '../../ui/names';
import { type Language, LANGUAGES, listing, textOf } from './code';

beforeAll(async () => setKernels(await loadKernels()));

const EPSILON = 0.01; // large enough for its position to matter
const X = [3, -1, 4, 1.5, -5, 9, 2];
const GAMMA = [1, 0.5, -2, 0, 3, 1, 0.1];
const BETA = [0, 1, -1, 0.5, 0, 2, -3];

const conventions: NormOptions[] = TOKEN_NORMS.flatMap((kind) =>
  VARIANCES.flatMap((variance) =>
    EPSILON_AT.map((epsilonAt) => ({ kind, variance, epsilonAt, epsilon: EPSILON })),
  ),
);

const nameOf = (options: NormOptions) => (options.kind === 'rms' ? 'rms_norm' : 'layer_norm');

/** Runs the code of all conventions and returns their results. */
const RUN: Record<Language, (codes: string[]) => number[][]> = {
  javascript: (codes) =>
    codes.map((code, i) => {
      const name = conventions[i].kind === 'rms' ? 'rmsNorm' : 'layerNorm';
      return new Function('x', 'g', 'b', 'e', `${code}; return ${name}(x, g, b, e);`)(
        X,
        GAMMA,
        BETA,
        EPSILON,
      );
    }),

  python(codes) {
    const calls = codes.map((code, i) => {
      const call = `${nameOf(conventions[i])}(${JSON.stringify([X, GAMMA, BETA]).slice(1, -1)}, ${EPSILON})`;
      return `${code}\nprint(*map(repr, ${call}))\n`;
    });
    return numbers(execFileSync('python3', ['-c', calls.join('\n')], { encoding: 'utf8' }));
  },

  cpp(codes) {
    const vector = (values: number[]) => `{${values.join(', ')}}`;
    const calls = conventions.map(
      (options, i) =>
        `  for (double v : c${i}::${nameOf(options)}(${[X, GAMMA, BETA].map(vector).join(', ')}, ` +
        `${EPSILON})) std::printf("%.17g ", v);\n  std::puts("");\n`,
    );
    // Includes must precede the namespaces that separate the conventions.
    const isInclude = (line: string) => line.startsWith('#include');
    const bodies = codes.map((code, i) => {
      const body = code.split('\n').filter((line) => !isInclude(line));
      return `namespace c${i} {\n${body.join('\n')}}\n`;
    });
    const includes = codes[0].split('\n').filter(isInclude).join('\n');
    const program = `#include <cstdio>\n${includes}\n${bodies.join('')}int main() {\n${calls.join('')}}\n`;
    return numbers(compiled(program));
  },
};

function compiled(program: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'addnorm-code-'));
  try {
    const [source, binary] = [join(folder, 'norms.cc'), join(folder, 'norms')];
    writeFileSync(source, program);
    const flags = ['-std=c++20', '-Wall', '-Wextra', '-Werror'];
    execFileSync(process.env.CXX ?? 'c++', [...flags, source, '-o', binary]);
    return execFileSync(binary, { encoding: 'utf8' });
  } finally {
    rmSync(folder, { recursive: true });
  }
}

function numbers(output: string): number[][] {
  return output
    .trim()
    .split('\n')
    .map((line) => line.trim().split(' ').map(Number));
}

describe.each(LANGUAGES)('%s', (language) => {
  test('gives the kernels’ output in every convention', () => {
    const found = RUN[language](conventions.map((options) => textOf(listing(language, options))));
    expect(found).toHaveLength(conventions.length);
    conventions.forEach((options, i) => {
      const { output } = addNormToken(options, X, null, GAMMA, BETA);
      expect(found[i]).toHaveLength(X.length);
      output.forEach((v, k) => expect(found[i][k], JSON.stringify(options)).toBeCloseTo(v, 12));
    });
  });

  test.each(conventions)('has lines for each step, and fits: %o', (options) => {
    const code = listing(language, options);
    expect(code).toHaveLength(6);
    expect(code[1].length === 0).toBe(options.kind === 'rms');
    for (const step of [2, 3, 4]) expect(code[step].length).toBeGreaterThan(0);
    for (const line of code.flat()) expect(line.length).toBeLessThanOrEqual(60);
  });
});
