// Example vectors, and the conventions of several libraries.

import { t } from '../../language/text';
import { normal } from '../../ui/random';

/** 512 features of a word after attention, with mean 0.135 and deviation 0.048. */
export const features512: readonly number[] = wordFeatures();

export const wideSpread: readonly number[] = [-8, 0.5, 12, -3, 6, 1, -15, 9];

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
