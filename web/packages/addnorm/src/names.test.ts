// Types need the names here once more: they are those of the library.

import { expect, test } from 'vitest';
import { native } from '../test/native.js';
import { FEED_FORWARDS, INITIALIZATIONS } from './block.js';
import { EPSILON_AT, GAMMA_FORMS, KINDS, VARIANCES } from './norms.js';

test('the names are the library’s', () => {
  expect(JSON.parse(native('manual', 'names'))).toMatchObject({
    norm: [...KINDS, 'dyt', 'derf'], // which only stacks have
    epsilon_at: EPSILON_AT,
    variance: VARIANCES,
    gamma_form: GAMMA_FORMS,
    activation: FEED_FORWARDS,
    initialization: INITIALIZATIONS,
  });
});
