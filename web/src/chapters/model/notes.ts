/** The speaker's notes, one for each step of a presentation. */
export const notes = [
  t`Take a prompt from the audience. Everything that follows is measured on it, in a network that this project’s own program has trained.`,
  t`Go up the table row by row. Ask at which layer the network knows its answer, and what the layers after it are for.`,
  t`The stream grows fast, then levels off and even shrinks. The middle layers add least, the last one adds much. Ask why the last layer is different.`,
  t`Look for the bright columns: single features that are much larger than the rest. They do not exist at layer 0; they appear by layer 2, and change at the end.`,
  t`Each dot is one γ. All began at 1. Ask what a γ near 0 means for that feature.`,
  t`Let the audience guess which layer is needed most. Then show the bars.`,
  t`Ask where the first token’s largest feature appears and where it goes. Then look for the same layers in the chart of γ.`,
];

import { t } from '../../language/text';
