/** The speaker's notes, one for each step of a presentation. */
export const notes = [
  t`Begin with the question: how can we widen the stream without widening every matrix? Draw two lanes on the board.`,
  t`Set Read from lane 2 to 0: the sublayer no longer sees lane 2. Then move Mixing, and ask how long the lanes stay different.`,
  t`Compare with the two lanes: the same three kinds of numbers, now for four lanes. Which lane does this sublayer read most?`,
  t`Read the table, costs included. The improvements were measured on test models, not on the models in the first column.`,
  t`Change one number and let the audience find its path. Then choose pre-norm: it has one lane, and all three numbers are 1. Then choose hyper-connections and mHC, and point at what changed in read, carry and write.`,
  t`Each row of the map is a sublayer. Its colours show what it reads of the sublayers before it. Compare pre-norm with Attention Residuals.`,
  t`Ask what happens to the lanes over 48 sublayers if each carry averages a little. Move Even mixing from 1 % to 10 %. Compare hyper-connections, whose stream may grow, with mHC, whose stream cannot.`,
  t`Show the trap with equal lanes: no entry of A gets a gradient that could tell the lanes apart. Then make the lanes different.`,
];

import { t } from '../../language/text';
