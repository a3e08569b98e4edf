// A comparison of the four stacks in one sentence.

import { language } from '../../language/language';
import { plural, t } from '../../language/text';
import { fateOf } from '../../stacks/verdict';
import { LANES } from './stacks';

const list = new Intl.ListFormat(language);

/** Takes each stack's gradients with all first weights; says which stacks always keep theirs. */
export function summary(gradients: number[][]): string {
  const keeps = gradients.map((ratios) => ratios.every((ratio) => fateOf(ratio) === 'keeps'));
  const sound = LANES.filter((_, lane) => keeps[lane]).map(({ name }) => t`“${name}”`);
  if (sound.length === 0) return t`At this depth no stack keeps its gradient with all three.`;
  if (sound.length === LANES.length) return t`This stack is shallow enough for all four.`;
  return plural(
    sound.length,
    'At this depth {who} keeps the gradient with all three; the others do not.',
    'At this depth {who} keep the gradient with all three; the others do not.',
    { who: list.format(sound) },
  );
}
