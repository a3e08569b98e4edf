// The four steps with their numbers, as TeX. Long vectors are shortened to their
// first terms, dots, and the last.

import type { NormOptions } from 'addnorm';
import { texFactor, texNumber, texResult } from '../../ui/tex';
import type { Steps } from './steps';

const ROOM = 31; // the characters of a sum that fit into a narrow page
const LINES = 4;

export function meanFormula({ x, mean }: Steps): string {
  const sum = texSum(x.map((v) => texFactor(v, 4)));
  return aligned([`\\mu &= \\frac{${sum}}{${x.length}}`, `&${texResult(mean, 8)}`]);
}

export function deviationFormula(options: NormOptions, steps: Steps): string {
  const { x, centred, variance, deviation, varianceIs } = steps;
  const squares = centred.map((v) => square(v));
  const divisor = options.variance === 'unbiased' ? `${x.length} - 1` : x.length;
  const name = options.kind === 'rms' ? '\\overline{x^2}' : '\\mathrm{Var}';
  const inner = texNumber(variance, 8);
  const epsilon = texNumber(options.epsilon!);
  const root =
    options.epsilonAt === 'variance'
      ? `= \\sqrt{${inner} + ${epsilon}}`
      : `= \\sqrt{${inner}} + ${epsilon}`;
  const result = texResult(deviation, 8);
  return aligned([
    `${name} &= \\frac{${texSum(squares)}}{${divisor}}`,
    `&${VARIANCE_BEYOND[varianceIs] ?? texResult(variance, 8)}`,
    ...(varianceIs === 'shown' ? [`\\sigma &${root}`, `&${result}`] : [`\\sigma &${result}`]),
  ]);
}

const VARIANCE_BEYOND: Record<Steps['varianceIs'], string | undefined> = {
  shown: undefined,
  'too large': '> 1.8{\\times}10^{308}',
  'too small': '< 5{\\times}10^{-324}',
};

export function normalizeFormula(options: NormOptions, steps: Steps): string {
  const { x, mean, deviation, normalized } = steps;
  const less = options.kind === 'rms' ? '' : ` - ${texFactor(mean, 6)}`;
  return lines(x.length, (i) => {
    const fraction = `\\frac{${texNumber(x[i], 6)}${less}}{${texNumber(deviation, 8)}}`;
    return `\\hat x_{${i + 1}} &= ${fraction} ${texResult(normalized[i])}`;
  });
}

export function outputFormula(
  gamma: number,
  beta: number,
  normalized: readonly number[],
  output: readonly number[],
): string {
  const shift = beta < 0 ? `- ${texNumber(-beta)}` : `+ ${texNumber(beta)}`;
  return lines(normalized.length, (i) => {
    const scaled = `${texNumber(gamma)} \\cdot ${texFactor(normalized[i])}`;
    return `y_{${i + 1}} &= ${scaled} ${shift} ${texResult(output[i])}`;
  });
}

function square(v: number): string {
  const text = texNumber(v, 4);
  return /^[\d.]+$/.test(text) ? `${text}^2` : `(${text})^2`;
}

/** The terms of a sum: all of them if they fit, else the first ones, dots, and the last. */
export function texSum(terms: string[]): string {
  const joined = terms.join(' + ');
  if (terms.length < 3 || width(joined) <= ROOM) return joined;
  const last = ['\\cdots', terms.at(-1)!];
  for (let kept = Math.min(terms.length - 2, 3); kept > 1; kept--) {
    const sum = [...terms.slice(0, kept), ...last].join(' + ');
    if (width(sum) <= ROOM) return sum;
  }
  return [terms[0], ...last].join(' + ');
}

/** The approximate width in characters: a command counts as one, braces as none. */
function width(tex: string): number {
  return tex.replace(/\\[a-z]+/g, 'x').replace(/[{}^]/g, '').length;
}

function lines(count: number, line: (i: number) => string): string {
  if (count <= LINES) return aligned(Array.from({ length: count }, (_, i) => line(i)));
  return aligned([line(0), line(1), '&\\;\\,\\vdots', line(count - 1)]);
}

function aligned(rows: string[]): string {
  return `\\begin{aligned} ${rows.join(' \\\\[6pt] ')} \\end{aligned}`;
}
