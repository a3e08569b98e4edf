import { t } from '../../language/text';

/** The speaker's notes, one for each step of a presentation. */
export const notes = [
  t`Go through the norms one by one and point at one cell. The frame shows which cells share its mean. Then draw only the other samples again: does this row change? Let them guess about the batch of one before you click.`,
  t`The column to look at is the one about other samples. Only BatchNorm depends on them, which text with one token at a time cannot use.`,
];
