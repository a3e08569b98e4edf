// The ways to draw a stack's first weights, by their names.

import type { Initialization } from 'addnorm';

export const FIRST_WEIGHTS: Record<Initialization, string> = {
  torch: 'PyTorch’s',
  xavier: 'Xavier',
  gpt2: 'GPT-2’s',
};
