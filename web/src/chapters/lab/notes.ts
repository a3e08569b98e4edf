import { t } from '../../language/text';

/** The speaker's notes, one for each step of a presentation. */
export const notes = [
  t`Everything so far was a claim. Choose a figure, then break the network with a bug that raises no error.`,
  t`The pale line is theory, the line over it is measured. The verdict can fail: that is the point.`,
  t`These run in the terminal, as they take minutes. Name the one on warm-up.`,
];
