// The factors of a path or a norm. Each is named after a placement that uses it.

import { t } from '../../language/text';

interface Factor {
  label: string;
  /** A note for readers who choose it. */
  note?: string;
  /** The factor in formulas; for the skip path it includes x. '' if a formula omits it. */
  tex: string;
}

export const FACTORS = {
  skip: {
    none: { label: '× 1', tex: 'x' },
    plain: { label: '× 0', tex: '' },
    deepnorm: { label: '× ⁴√(2N)', tex: String.raw`\sqrt[4]{2N}\,x` },
    keel: { label: '× 2N', tex: String.raw`2N\,x` },
    admin: { label: '⊙ ω', note: t`learned`, tex: String.raw`\omega \odot x` },
  },
  gain: {
    none: { label: '× 1', tex: '' },
    'scaled-branch': { label: '× 1/√N', tex: String.raw`\tfrac{1}{\sqrt{N}}\,` },
    completep: { label: '× 2/N', tex: String.raw`\tfrac{2}{N}\,` },
    rezero: { label: '× α', note: t`learned, initially 0`, tex: String.raw`\alpha\,` },
    layerscale: {
      label: '⊙ λ',
      note: t`learned, initially small`,
      tex: String.raw`\lambda \odot `,
    },
  },
  beforeScale: {
    none: { label: '× 1', tex: '' },
    'depth-scaled': { label: '× 1/√l', tex: String.raw`\tfrac{1}{\sqrt{l}}\,` },
  },
  initialGain: {
    none: { label: '× 1', tex: '' },
    deepnorm: { label: '× 1/⁴√(8N)', tex: String.raw`1/\sqrt[4]{8N}` },
  },
} as const satisfies Record<string, Record<string, Factor>>;

export type FactorSlot = keyof typeof FACTORS;
export type FactorName<S extends FactorSlot> = keyof (typeof FACTORS)[S] & string;

export function factorNames<S extends FactorSlot>(slot: S): FactorName<S>[] {
  return Object.keys(FACTORS[slot]) as FactorName<S>[];
}

export function factor(slot: FactorSlot, name: string): Factor {
  return (FACTORS[slot] as Record<string, Factor>)[name];
}
