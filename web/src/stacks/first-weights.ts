// How a stack's first weights are drawn, as a reader chooses it.

import type { Initialization } from 'addnorm';

export const FIRST_WEIGHTS: readonly { value: Initialization; label: string }[] = [
  { value: 'torch', label: 'PyTorch’s' },
  { value: 'xavier', label: 'Xavier' },
  { value: 'gpt2', label: 'GPT-2’s' },
];
