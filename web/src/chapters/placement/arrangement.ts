// The arrangement on the switchboard: as the kernels take it, and as an equation.

import { batch } from '@preact/signals';
import type { Arrangement, Placement } from '../../kernels/kernels';
import { GAINS, SCALES, SKIPS, state, WEIGHTS } from './state';

/** What the switches say. */
export function chosenArrangement(): Arrangement {
  return {
    before: state.before.value,
    inside: state.inside.value,
    after: state.after.value,
    skip: state.skip.value,
    gain: state.gain.value,
    beforeScale: state.before.value ? state.scale.value : 'none', // it is the norm's
    initialGain: state.weights.value,
    finalNorm: state.final.value,
  };
}

const SLOTS = ['before', 'inside', 'after', 'finalNorm'] as const;
const FACTORS = ['skip', 'gain', 'beforeScale', 'initialGain'] as const;
type Factor = (typeof FACTORS)[number];

function formula(name: string, factor: Factor, table: Placement[]): string {
  return table.find((row) => row.name === name)!.formulas[factor];
}

/** The row of the table that this is; undefined: none. */
export function rowOf(arrangement: Arrangement, table: Placement[]): Placement | undefined {
  return table.find(
    (row) =>
      SLOTS.every((slot) => row[slot] === arrangement[slot]) &&
      FACTORS.every((f) => row.formulas[f] === formula(arrangement[f], f, table)),
  );
}

/** Sets the switches to a row of the table. */
export function choose(row: Placement, table: Placement[]): void {
  const same = <V extends string>(names: readonly V[], factor: Factor): V =>
    names.find((name) => formula(name, factor, table) === row.formulas[factor])!;
  batch(() => {
    state.before.value = row.before;
    state.inside.value = row.inside;
    state.after.value = row.after;
    state.final.value = row.finalNorm;
    state.skip.value = same(SKIPS, 'skip');
    state.gain.value = same(GAINS, 'gain');
    state.scale.value = same(SCALES, 'beforeScale');
    state.weights.value = same(WEIGHTS, 'initialGain');
  });
}

const SKIP: Record<string, string> = {
  none: 'x',
  plain: '',
  deepnorm: String.raw`\sqrt[4]{2N}\,x`,
  admin: String.raw`\omega \odot x`,
};
const GAIN: Record<string, string> = {
  none: '',
  'scaled-branch': String.raw`\tfrac{1}{\sqrt{N}}\,`,
  rezero: String.raw`\alpha\,`,
  layerscale: String.raw`\lambda \odot `,
};

/** y as a function of x, in TeX. */
export function equation(arrangement: Arrangement, norm: 'layer' | 'rms'): string {
  const name = norm === 'layer' ? 'LN' : 'RMS';
  const normalized = (inner: string) => String.raw`\operatorname{${name}}\!\left(${inner}\right)`;
  const scale = arrangement.beforeScale === 'none' ? '' : String.raw`\tfrac{1}{\sqrt{l}}\,`;
  const h = arrangement.before ? scale + normalized('x') : 'x';
  const branch = String.raw`F\!\left(${h}\right)`;
  const f = GAIN[arrangement.gain] + (arrangement.inside ? normalized(branch) : branch);
  const s = [SKIP[arrangement.skip], f].filter(Boolean).join(' + ');
  return `y = ${arrangement.after ? normalized(s) : s}`;
}
