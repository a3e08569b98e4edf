import { t } from '../../language/text';

/** The speaker's notes, one for each step of a presentation. */
export const notes = [
  t`This is the picture that most people know. Point at one value: on the left its column is normalized together, on the right its row. Which of the two needs the other samples?`,
  t`Go through the norms one by one and point at one cell. The frame shows which cells share its mean. Then draw new values for the other samples: does this row change? Let the audience guess about the batch of one before you click.`,
  t`Look at the column about other samples. Only BatchNorm depends on them, so it does not suit text that is written one token at a time.`,
];
