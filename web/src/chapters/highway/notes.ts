import { t } from '../../language/text';

/** The speaker's notes, one for each step of a presentation. */
export const notes = [
  t`Compare the product without the residual and the one with it. Multiply out the second with two factors on the board: the 1 stays.`,
  t`Ask for a guess: how much of the gradient is left after 24 layers? Then move Layers from 6 to 48. Look at the third chart too: without the residual all tokens become nearly the same.`,
  t`For “Norm only” and “Residual only” the answer depends on the initial weights. “Neither” always fails; “Both” never loses its gradient.`,
];
