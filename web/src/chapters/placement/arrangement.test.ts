import { beforeAll, expect, test } from 'vitest';
import type { Placement } from '../../kernels/kernels';
import { loadKernels } from '../../kernels/current';
import { resetState } from '../../state/store';
import { chosenArrangement, choose, equation, rowOf } from './arrangement';
import { state } from './state';

let table: Placement[];
beforeAll(async () => {
  table = (await loadKernels()).placements();
});

test('every placement can be put on the switchboard, and is known there', () => {
  expect(table).toHaveLength(14);
  for (const placement of table) {
    choose(placement, table);
    expect(rowOf(chosenArrangement(), table)).toBe(placement);
  }
});

test('what is no row has no name; a scale without its norm counts for nothing', () => {
  resetState(state);
  expect(rowOf(chosenArrangement(), table)?.name).toBe('post');
  state.before.value = true;
  expect(rowOf(chosenArrangement(), table)).toBeUndefined();
  resetState(state);
  state.scale.value = 'depth-scaled';
  expect(rowOf(chosenArrangement(), table)?.name).toBe('post');
});

test('equations', () => {
  const expected: Record<string, string> = {
    none: 'y = x + F(x)',
    plain: 'y = F(x)',
    post: 'y = LN(x + F(x))',
    pre: 'y = x + F(LN(x))',
    sandwich: 'y = x + LN(F(LN(x)))',
    reordered: 'y = x + LN(F(x))',
    rezero: String.raw`y = x + \alphaF(x)`,
    deepnorm: String.raw`y = LN(\sqrt[4]{2N}x + F(x))`,
  };
  for (const [name, text] of Object.entries(expected)) {
    choose(
      table.find((p) => p.name === name)!,
      table,
    );
    const shown = equation(chosenArrangement(), 'layer')
      .replace(/\\operatorname\{(\w+)\}/g, '$1')
      .replace(/\\!|\\left|\\right|\\,/g, '');
    expect(shown).toBe(text);
  }
});
