import { t } from '../../language/text';

/** The speaker's notes, one for each step of a presentation. */
export const notes = [
  t`The earlier chapters made claims. Choose a figure, then break the network with a bug that raises no error.`,
  t`The pale line is theory; the line over it is measured. The verdict can fail, so it is a real test.`,
  t`These figures run in the terminal, as they take minutes. Mention the one on warm-up.`,
];
