// The state of the chapter “Where the norm goes”.

import { INITIALIZATIONS } from 'addnorm';
import { answer, choice, flag, number, seed } from '../../state/fields';
import { defineState } from '../../state/store';
import { TOKEN_NORMS } from '../../ui/names';
import { factorNames } from './factors';
import { longText } from './long-text';

const MOST_CHARACTERS = 50_000;

/** With the initial settings post-norm stalls: without warm-up 12 of 12 runs stayed at the loss of
 * byte frequencies, and with warm-up all 12 trained. */
export const state = defineState('pl', {
  before: flag(false),
  inside: flag(false),
  after: flag(true),
  final: flag(false),
  skip: choice(factorNames('skip'), 'none'),
  gain: choice(factorNames('gain'), 'none'),
  scale: choice(factorNames('beforeScale'), 'none'),
  weights: choice(factorNames('initialGain'), 'none'),
  norm: choice(TOKEN_NORMS, 'layer'),
  first: choice(INITIALIZATIONS, 'torch'),
  layers: number({ min: 1, max: 24, step: 1, initial: 12 }),
  seed: seed(),
  /** The reader's guesses: the stack of 12 layers in which the gradient arrives, and post-norm's
   * training without warm-up. */
  deep: answer(['none', 'pre', 'post', 'both', 'neither']),
  cold: answer(['none', 'trains', 'stalls', 'diverges']),
  rate: choice(['0.0003', '0.001', '0.002', '0.003', '0.005', '0.01'], '0.005'),
  steps: number({ min: 2, max: 1000, step: 1, initial: 250 }),
  warmup: number({ min: 1, max: 1000, step: 1, initial: 125 }),
  curves: choice(['mean', 'each'], 'mean'),
  source: choice(['bundled', 'pasted'], 'bundled'),
  text: longText(MOST_CHARACTERS),
});
