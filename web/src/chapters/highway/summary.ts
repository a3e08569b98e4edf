// A comparison of the four stacks in one sentence.

import { language } from '../../language/language';
import { t } from '../../language/text';
import { fateOf } from '../../stacks/verdict';
import { LANES } from './stacks';

const list = new Intl.ListFormat(language);

/** The sentence that names the stacks whose gradients arrive with every kind of initial weights. */
export function summary(gradients: number[][]): string {
  const arrives = gradients.map((ratios) => ratios.every((ratio) => fateOf(ratio) === 'arrives'));
  const sound = LANES.filter((_, lane) => arrives[lane]).map(({ name }) => t`“${name}”`);
  if (sound.length === 0)
    return t`At this depth no stack’s gradient arrives with all three kinds of initial weights.`;
  if (sound.length === LANES.length)
    return t`At this depth the gradient arrives in all four stacks, with all three kinds of initial
      weights.`;
  return t`At this depth the gradient arrives with all three kinds of initial weights only in ${list.format(sound)}.`;
}
