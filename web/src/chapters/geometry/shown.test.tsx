// Checks the texts that the chapter shows beside its figures.

import { renderToString } from 'preact-render-to-string';
import { beforeAll, beforeEach, expect, test, vi } from 'vitest';
import { loadKernels, setKernels } from '../../kernels/current';
import { resetState } from '../../state/store';
import { BackwardInSpace } from './backward';
import { Guesses } from './guesses';
import { state } from './state';
import { Numbers } from './view';

vi.mock('../../ui/text-width', () => ({ textWidth: (text: string) => 7 * text.length }));

beforeAll(async () => setKernels(await loadKernels()));
beforeEach(() => resetState(state));

test('sums that differ from 0 by rounding errors alone are shown as 0', () => {
  for (const x of [
    [0.9, 0.5, -0.2],
    [0.7, -2.1, 0.4],
    [2.9, 1.3, 0.1],
  ]) {
    state.x.value = x;
    for (const g of [
      [0.6, 1.2, -0.9],
      [0.1, 0.7, -0.8],
      [1, 1, 1],
    ]) {
      state.g.value = g;
      const page = renderToString(
        <>
          <Numbers />
          <BackwardInSpace />
        </>,
      );
      expect(page.match(/e−1[3-9]/g)).toBeNull();
    }
  }
});

test('a reply names no rounding error', () => {
  state.shifted.value = 'c';
  state.doubled.value = 'b';
  expect(renderToString(<Guesses />)).not.toMatch(/e−1[3-9]/);
});

test('a move that would leave the figure is named with its reason', () => {
  state.doubled.value = 'b';
  expect(renderToString(<Guesses />)).not.toContain('is unavailable');
  state.x.value = [2, 1, -1];
  expect(renderToString(<Guesses />)).toContain('“Times 2” is unavailable: it would move x out of');
  expect(renderToString(<Guesses />)).not.toContain('“Divided by 2” is unavailable');
});
