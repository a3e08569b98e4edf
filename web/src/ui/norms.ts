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

/** Norms as the options of a Choice. */
export function normOptions<K extends Kind>(kinds: readonly K[]): { value: K; label: string }[] {
  return kinds.map((value) => ({ value, label: NORM_NAMES[value] }));
}
