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
    return t`At this depth no stack lets the gradient arrive with each of the three first weights.`;
  if (sound.length === LANES.length) return t`This stack is shallow enough for all four.`;
  return t`At this depth the gradient arrives with each of the three first weights only in ${list.format(sound)}.`;
}
