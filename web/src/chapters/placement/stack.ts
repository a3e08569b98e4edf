// The stack that the switches and controls describe.

import type { Stack } from '../../kernels/session-host';
import { chosenArrangement } from './arrangement';
import { state } from './state';

/** The text of the model; undefined: the bundled text. */
export function chosenText(): string | undefined {
  return state.source.value === 'pasted' ? state.text.value : undefined;
}

/** The chosen stack. Its training options are constants, because they do
 * not affect the initial weights. */
export function chosenStack(): Stack {
  return {
    arrangement: chosenArrangement(),
    options: {
      layers: state.layers.value,
      width: 32,
      heads: 2,
      context: 32,
      batch: 8,
      learningRate: 1e-3,
      warmUp: 0,
      seed: state.seed.value,
      initialization: state.first.value,
      norm: state.norm.value,
    },
  };
}
