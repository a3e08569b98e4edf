import { t } from '../../language/text';

/** The speaker's notes, one for each step of a presentation. */
export const notes = [
  t`A block has two sublayers, each with its own Add & Norm. The output has the shape of the input. Choose a model that the audience knows and read its number of parameters: the norms have hardly any.`,
  t`Ask which outputs change before you click. Then switch the mask off and on: the upper triangle fills and empties. Outputs before the changed token change only without the mask.`,
  t`C++ and Python print the same numbers. Show the language that the audience knows.`,
];
