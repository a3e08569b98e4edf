import { t } from '../../language/text';

/** The speaker's notes, one for each step of a presentation. */
export const notes = [
  t`dy comes from above, dx goes on below. Have them vote on dy = (1, …, 1) before you click: dx is zero. Ask why before you read the reply.`,
  t`A shift of x changes nothing above the norm, so the gradient has nothing to say along it. The same holds along x̂.`,
  t`In post-norm this happens to the stream itself, once for each norm. In pre-norm the stream goes past. Remember the placements: that is why pre-norm trains without warm-up.`,
];
