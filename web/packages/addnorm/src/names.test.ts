// Checks that the names in the types equal those of the library.

import { expect, test } from 'vitest';
import { native } from '../test/native.js';
import { FEED_FORWARDS, INITIALIZATIONS } from './block.js';
import { EPSILON_AT, GAMMA_FORMS, KINDS, VARIANCES } from './norms.js';

test('the names are the library’s', () => {
  expect(JSON.parse(native('manual', 'names'))).toMatchObject({
    norm: [...KINDS, 'dyt', 'derf'], // only stacks have these two
    epsilon_at: EPSILON_AT,
    variance: VARIANCES,
    gamma_form: GAMMA_FORMS,
    activation: FEED_FORWARDS,
    initialization: INITIALIZATIONS,
  });
});
