import { t } from '../../language/text';

/** The speaker's notes, one for each step of a presentation. */
export const notes = [
  t`Two sublayers, each with its own Add & Norm. The shape that goes in comes out. Press a model that they know and read its count of parameters: the norms have next to none.`,
  t`Ask who changes before you click. Then switch the mask off and on: the upper triangle fills and empties, and the tokens before the changed one move or stand still.`,
  t`C++ and Python print the same numbers. Show whichever language the room reads.`,
];
