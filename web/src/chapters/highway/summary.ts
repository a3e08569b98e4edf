// A comparison of the four stacks in one sentence.

import { fateOf } from '../../stacks/verdict';
import { LANES } from './stacks';

const list = new Intl.ListFormat('en');

/** Takes each stack's gradients with all first weights; says which stacks always keep theirs. */
export function summary(gradients: number[][]): string {
  const keeps = gradients.map((ratios) => ratios.every((ratio) => fateOf(ratio) === 'keeps'));
  const sound = LANES.filter((_, lane) => keeps[lane]).map(({ name }) => `“${name}”`);
  if (sound.length === 0) return 'At this depth no stack keeps its gradient with all three.';
  if (sound.length === LANES.length) return 'This stack is shallow enough for all four.';
  const verb = sound.length === 1 ? 'keeps' : 'keep';
  const who = `${list.format(sound)} ${verb} the gradient`;
  return `At this depth ${who} with all three; the others do not.`;
}
