import { t } from '../../language/text';

/** The speaker's notes, one for each step of a presentation. */
export const notes = [
  t`dy comes from the layer above, and dx goes to the layer below. Have the audience vote on dy = (1, …, 1) before you click: dx is zero. Ask why before you read the reply.`,
  t`A shift of x changes nothing above the norm, so the gradient has no part along it. The same holds for x̂.`,
  t`Drag g. Ask which two directions must vanish from the gradient, and why the loss cannot depend on them. For RMSNorm there is only one.`,
  t`In post-norm this happens to the gradient of the stream itself, once for each norm. In pre-norm the stream goes past the norms. This is why pre-norm trains without warm-up: see the chapter on placements.`,
];
