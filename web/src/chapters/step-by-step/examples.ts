// Example vectors, and the conventions of several libraries.

import { t } from '../../language/text';
import { normal } from '../../ui/random';

/** 512 features of a word after attention, with mean 0.135 and deviation 0.048. */
export const features512: readonly number[] = wordFeatures();

export const wideSpread: readonly number[] = [-8, 0.5, 12, -3, 6, 1, -15, 9];

/** The first token of torch.randn(2, 4, 8) · 10 + 5 with seed 0, to three decimals. By torch.std
 * its deviation is 9.830, so the divisor is n − 1. */
export const torchExample = {
  x: [-6.258, -6.524, 2.494, 0.661, 13.487, 11.92, 1.84, -16.152],
  norm: 'layer',
  variance: 'unbiased',
  epsilonAt: 'deviation',
  epsilon: '1e-6',
} as const;

/** Eight normal values with a random mean and a random deviation. */
export function randomVector(draw = normal(Math.floor(2 ** 31 * Math.random()))): number[] {
  const [mean, deviation] = [3 * draw(), 1 + 4 * Math.abs(draw())];
  return Array.from({ length: 8 }, () => Number((mean + deviation * draw()).toFixed(1)));
}

const root = { norm: 'layer', epsilonAt: 'variance', variance: 'population' } as const;
const beside = { norm: 'layer', epsilonAt: 'deviation', variance: 'unbiased' } as const;

export const conventions = [
  { name: 'PyTorch', ...root, epsilon: '1e-5' },
  { name: 'BERT', ...root, epsilon: '1e-12' },
  { name: 'Llama 3', ...root, norm: 'rms', epsilon: '1e-5' },
  { name: t`From scratch`, ...beside, epsilon: '1e-6' },
  { name: t`Chapter 1`, ...root, epsilon: '1e-8' },
] as const;

function wordFeatures(): number[] {
  const draw = normal(2700);
  const drawn = Array.from({ length: 507 }, () => Number((0.135 + 0.048 * draw()).toFixed(3)));
  return [0.146, 0.108, 0.192, 0.155, ...drawn, 0.11];
}
