import { t } from '../../language/text';

/** The speaker's notes, one for each step of a presentation. */
const everyQuestion = t`Let the audience vote before you click. Click a wrong answer first if many chose it: each has its own reply.`;

export const notes = [
  t`Seven questions. A show of hands for each answer works well.`,
  ...Array<string>(7).fill(everyQuestion),
];
