// The stack that the switches and controls describe.

import type { Stack } from '../../kernels/session-host';
import { chosenArrangement } from './arrangement';
import { state } from './state';

/** The text that it reads; undefined: the bundled one. */
export function chosenText(): string | undefined {
  return state.source.value === 'pasted' ? state.text.value : undefined;
}

/** The options of training do not affect its first weights. */
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
