// A comparison of the four stacks in one sentence.

import { fateOf } from '../../stacks/verdict';
import { LANES } from './stacks';

const list = new Intl.ListFormat('en');

/** Takes each stack's gradients with all first weights; says in which stacks they always arrive. */
export function summary(gradients: number[][]): string {
  const arrives = gradients.map((ratios) => ratios.every((ratio) => fateOf(ratio) === 'arrives'));
  const sound = LANES.filter((_, lane) => arrives[lane]).map(({ name }) => `“${name}”`);
  if (sound.length === 0) return 'At this depth the gradient arrives with all three in no stack.';
  if (sound.length === LANES.length) return 'This stack is shallow enough for all four.';
  return `At this depth the gradient arrives with all three in ${list.format(sound)}, and not in the others.`;
}
