// The norms by their names.

import type { Kind } from 'addnorm';

export const NORM_NAMES: Record<Kind, string> = {
  layer: 'LayerNorm',
  rms: 'RMSNorm',
  batch: 'BatchNorm',
  instance: 'InstanceNorm',
  group: 'GroupNorm',
};

/** Those of Transformers: one token is normalized by itself. */
export const TOKEN_NORMS = ['layer', 'rms'] as const;
export type TokenNorm = (typeof TOKEN_NORMS)[number];

export const PLACEMENT_NAMES = { pre: 'pre-norm', post: 'post-norm' };
