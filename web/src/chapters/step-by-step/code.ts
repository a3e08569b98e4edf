// LayerNorm from scratch in three languages, in the reader's convention.

import type { NormOptions } from 'addnorm';

export const LANGUAGES = ['python', 'cpp', 'javascript'] as const;
export type Language = (typeof LANGUAGES)[number];

export const CODE_LABELS: Record<Language, string> = {
  cpp: 'C++',
  python: 'Python',
  javascript: 'JavaScript',
};

/** The lines before the steps, those of steps 1 to 4, and those after them. */
export type Listing = readonly (readonly string[])[];

export function listing(language: Language, options: NormOptions): Listing {
  return WRITERS[language](wordsOf(options));
}

export function textOf(code: Listing): string {
  return `${code.flat().join('\n')}\n`;
}

/** The parts of the code that depend on the convention. */
interface Words {
  rms: boolean;
  centred: string; // v, minus the mean if the convention has one
  divisor: string;
  deviation(root: string, square: string): string;
}

function wordsOf({ kind, variance, epsilonAt }: NormOptions): Words {
  const rms = kind === 'rms';
  return {
    rms,
    centred: rms ? 'v' : '(v - mean)',
    divisor: variance === 'unbiased' ? '(n - 1)' : 'n',
    deviation: (root, square) =>
      epsilonAt === 'deviation' ? `${root}(${square}) + epsilon` : `${root}(${square} + epsilon)`,
  };
}

const WRITERS: Record<Language, (words: Words) => Listing> = {
  cpp({ rms, centred, divisor, deviation }) {
    const square = rms ? 'mean_square' : 'variance';
    const name = rms ? 'rms_norm' : 'layer_norm';
    const mean = [
      '  double sum = 0;',
      '  for (double v : x) sum += v;',
      '  double mean = sum / n;',
    ];
    return [
      [
        '#include <cmath>',
        '#include <vector>',
        'using Vector = std::vector<double>;',
        '',
        `Vector ${name}(Vector x, const Vector& gamma,`,
        `${' '.repeat(name.length + 8)}const Vector& beta, double epsilon) {`,
        '  const int n = x.size();',
      ],
      rms ? [] : mean,
      [
        '  double squares = 0;',
        `  for (double v : x) squares += ${centred} * ${centred};`,
        `  double ${square} = squares / ${divisor};`,
        `  double deviation = ${deviation('std::sqrt', square)};`,
      ],
      [`  for (double& v : x) v = ${centred} / deviation;`],
      ['  for (int i = 0; i < n; ++i)', '    x[i] = gamma[i] * x[i] + beta[i];'],
      ['  return x;', '}'],
    ];
  },

  python({ rms, centred, divisor, deviation }) {
    const square = rms ? 'mean_square' : 'variance';
    return [
      [
        'from math import sqrt',
        '',
        `def ${rms ? 'rms_norm' : 'layer_norm'}(x, gamma, beta, epsilon):`,
        '    n = len(x)',
      ],
      rms ? [] : ['    mean = sum(x) / n'],
      [
        `    squares = sum(${centred} ** 2 for v in x)`,
        `    ${square} = squares / ${divisor}`,
        `    deviation = ${deviation('sqrt', square)}`,
      ],
      [`    x_hat = [${centred} / deviation for v in x]`],
      ['    return [g * v + b', '            for g, v, b in zip(gamma, x_hat, beta)]'],
      [],
    ];
  },

  javascript({ rms, centred, divisor, deviation }) {
    const square = rms ? 'meanSquare' : 'variance';
    return [
      [
        'const sum = (v) => v.reduce((a, b) => a + b);',
        '',
        `function ${rms ? 'rmsNorm' : 'layerNorm'}(x, gamma, beta, epsilon) {`,
        '  const n = x.length;',
      ],
      rms ? [] : ['  const mean = sum(x) / n;'],
      [
        `  const squares = sum(x.map((v) => ${centred} ** 2));`,
        `  const ${square} = squares / ${divisor};`,
        `  const deviation = ${deviation('Math.sqrt', square)};`,
      ],
      [`  const xHat = x.map((v) => ${centred} / deviation);`],
      ['  return xHat.map((v, i) => gamma[i] * v + beta[i]);'],
      ['}'],
    ];
  },
};
