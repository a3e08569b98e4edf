// The arrangement on the switchboard, in the kernels' form and as an equation.

import type { Arrangement, Placement } from '../../kernels/kernels';
import { t } from '../../language/text';
import { assign } from '../../state/store';
import type { TokenNorm } from '../../ui/names';
import { factor, type FactorName, factorNames, FACTORS, type FactorSlot } from './factors';
import { state } from './state';

/** The label of an arrangement without a name. */
export const OWN = t`your own`;

/** The arrangement that the switches describe. */
export function chosenArrangement(): Arrangement {
  return {
    before: state.before.value,
    inside: state.inside.value,
    after: state.after.value,
    skip: state.skip.value,
    gain: state.gain.value,
    beforeScale: state.before.value ? state.scale.value : 'none', // needs the norm
    initialGain: state.weights.value,
    finalNorm: state.final.value,
  };
}

const SLOTS = ['before', 'inside', 'after', 'finalNorm'] as const;
const FACTOR_SLOTS = Object.keys(FACTORS) as FactorSlot[];

function formula(name: string, slot: FactorSlot, table: Placement[]): string {
  return table.find((row) => row.name === name)!.formulas[slot];
}

/** The row of the table with this arrangement; undefined if there is none. */
export function rowOf(arrangement: Arrangement, table: Placement[]): Placement | undefined {
  return table.find(
    (row) =>
      SLOTS.every((slot) => row[slot] === arrangement[slot]) &&
      FACTOR_SLOTS.every((slot) => row.formulas[slot] === formula(arrangement[slot], slot, table)),
  );
}

/** Sets the switches to a row of the table. */
export function choose(row: Placement, table: Placement[]): void {
  const same = <S extends FactorSlot>(slot: S): FactorName<S> =>
    factorNames(slot).find((name) => formula(name, slot, table) === row.formulas[slot])!;
  assign(state, {
    before: row.before,
    inside: row.inside,
    after: row.after,
    final: row.finalNorm,
    skip: same('skip'),
    gain: same('gain'),
    scale: same('beforeScale'),
    weights: same('initialGain'),
  });
}

/** y as a function of x, in TeX. */
export function equation(arrangement: Arrangement, norm: TokenNorm): string {
  const name = norm === 'layer' ? 'LN' : 'RMS';
  const normalized = (inner: string) => String.raw`\operatorname{${name}}\!\left(${inner}\right)`;
  const tex = (slot: FactorSlot) => factor(slot, arrangement[slot]).tex;
  const h = arrangement.before ? tex('beforeScale') + normalized('x') : 'x';
  const branch = String.raw`F\!\left(${h}\right)`;
  const f = tex('gain') + (arrangement.inside ? normalized(branch) : branch);
  const s = [tex('skip'), f].filter(Boolean).join(' + ');
  return `y = ${arrangement.after ? normalized(s) : s}`;
}
