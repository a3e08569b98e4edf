import { t } from '../../language/text';

/** The speaker's notes, one for each step of a presentation. */
const everyQuestion = t`Let them vote before you click. Click a wrong answer first if many chose it: each has a reply of its own.`;

export const notes = [
  t`Seven questions. A show of hands for each answer works well.`,
  ...Array<string>(7).fill(everyQuestion),
];
