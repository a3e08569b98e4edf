/** The speaker's notes, one for each step of a presentation. */
export const notes = [
  t`Begin with the question: how can a stream be wider without making every matrix wider? Draw two lanes on the board.`,
  t`Change one number and let the room find its path. Then take pre-norm: one lane, three times the number 1. Then hyper-connections, then mHC, and point at what changed in read, carry and write.`,
  t`Read the table, costs included. The gains are those of test models, not of the models in the first column.`,
  t`A row of the map is a sublayer, and the colours say what it reads of those below. Compare pre-norm with Attention Residuals.`,
  t`Ask what happens to the lanes over 48 sublayers if each carry averages a little. Move Even mixing from 1 % to 10 %. Compare hyper-connections with mHC: one may grow, one cannot.`,
  t`Show the trap with equal lanes: no entry of A gets a gradient that could tell the lanes apart. Then break the tie.`,
];

import { t } from '../../language/text';
