// The state of the chapter “Step by step”.

import { EPSILON_AT, VARIANCES } from 'addnorm';
import { choice, type Field, number, vector } from '../../state/fields';
import { defineState } from '../../state/store';
import { TOKEN_NORMS } from '../../ui/names';
import { LANGUAGES } from './code';
import { features512 } from './examples';

const EPSILONS = ['0', '1e-12', '1e-8', '1e-6', '1e-5', '1e-3', '0.1'] as const;
/** The largest absolute value; ten times this is still a finite float64. */
export const LIMIT = 1e305;

const anyVector = vector([1, 2, 3, 4], { minLength: 1, maxLength: 1024, min: -LIMIT, max: LIMIT });

const EXAMPLE = '512-features';

/** The reader's vector, or the name of an example, which keeps links short. */
const vectorOrExample: Field<readonly number[]> = {
  initial: anyVector.initial,
  write: (values) => (values === features512 ? EXAMPLE : anyVector.write(values)),
  read: (text) => (text === EXAMPLE ? features512 : anyVector.read(text)),
};

export const state = defineState('st', {
  x: vectorOrExample,
  norm: choice(TOKEN_NORMS, 'layer'),
  variance: choice(VARIANCES, 'population'),
  epsilon: choice(EPSILONS, '1e-5'),
  epsilonAt: choice(EPSILON_AT, 'variance'),
  gamma: number({ min: 0, max: 3, step: 0.1, initial: 1 }),
  beta: number({ min: -3, max: 3, step: 0.1, initial: 0 }),
  language: choice(LANGUAGES, 'python'),
});
