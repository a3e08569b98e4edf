// Names of norms, placements and initial weights, and their capitalized forms.

import type { Initialization, Kind } from 'addnorm';
import { t } from '../language/text';

export const NORM_NAMES: Record<Kind, string> = {
  layer: 'LayerNorm',
  rms: 'RMSNorm',
  batch: 'BatchNorm',
  instance: 'InstanceNorm',
  group: 'GroupNorm',
};

/** The norms of Transformers, which normalize each token separately. */
export const TOKEN_NORMS = ['layer', 'rms'] as const;
export type TokenNorm = (typeof TOKEN_NORMS)[number];

export const PLACEMENT_NAMES = { pre: t`pre-norm`, post: t`post-norm` };

/** The names of the initializations of a stack. */
export const FIRST_WEIGHTS: Record<Initialization, string> = {
  torch: t`PyTorch’s`,
  xavier: 'Xavier',
  gpt2: t`GPT-2’s`,
};

export function capital(name: string): string {
  return name[0].toUpperCase() + name.slice(1);
}
