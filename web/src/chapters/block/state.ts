// The state of the chapter “The block”.

import { choice, flag, guess, number } from '../../state/fields';
import { defineState } from '../../state/store';

export const TOKENS = 6; // the tokens of the mask's measurement
export const ACTIVATIONS = ['relu', 'gelu'] as const;
export const LANGUAGES = ['python', 'cpp', 'js'] as const;

export const state = defineState('bl', {
  dModel: number({ min: 1, max: 65_536, step: 1, initial: 512 }),
  heads: number({ min: 1, max: 256, step: 1, initial: 8 }),
  dFf: number({ min: 1, max: 262_144, step: 1, initial: 2048 }),
  layers: number({ min: 1, max: 1000, step: 1, initial: 6 }),
  placement: choice(['pre', 'post'], 'pre'),
  causal: flag(false),
  activation: choice(ACTIVATIONS, 'relu'),
  /** The replaced token, from 1. */
  token: number({ min: 1, max: TOKENS, step: 1, initial: 4 }),
  guess: guess(),
  language: choice(LANGUAGES, 'python'),
});

/** The encoder of Vaswani et al. 2017. */
const ENCODER = { placement: 'post', causal: false, activation: 'relu' } as const;
/** Radford et al. 2019, Brown et al. 2020. */
const GPT = { placement: 'pre', causal: true, activation: 'gelu' } as const;

export const MODELS = [
  { name: 'Transformer base', dModel: 512, heads: 8, dFf: 2048, layers: 6, ...ENCODER },
  { name: 'GPT-2 small', dModel: 768, heads: 12, dFf: 3072, layers: 12, ...GPT },
  { name: 'GPT-3', dModel: 12288, heads: 96, dFf: 49152, layers: 96, ...GPT },
] as const;
