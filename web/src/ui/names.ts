// Names of norms, placements and first weights, and how a name begins a sentence.

import type { Initialization, Kind } from 'addnorm';

export const NORM_NAMES: Record<Kind, string> = {
  layer: 'LayerNorm',
  rms: 'RMSNorm',
  batch: 'BatchNorm',
  instance: 'InstanceNorm',
  group: 'GroupNorm',
};

/** The norms of Transformers, which normalize each token by itself. */
export const TOKEN_NORMS = ['layer', 'rms'] as const;
export type TokenNorm = (typeof TOKEN_NORMS)[number];

export const PLACEMENT_NAMES = { pre: 'pre-norm', post: 'post-norm' };

/** The ways to draw a stack's first weights. */
export const FIRST_WEIGHTS: Record<Initialization, string> = {
  torch: 'PyTorch’s',
  xavier: 'Xavier',
  gpt2: 'GPT-2’s',
};

export function capital(name: string): string {
  return name[0].toUpperCase() + name.slice(1);
}
