// The state of the chapter about a trained network.

import { plural, t } from '../../language/text';
import { answer, choice, type Field, FieldError } from '../../state/fields';
import { defineState } from '../../state/store';

/** The sizes of the network. */
export const LAYERS = 8;
export const CONTEXT = 128;

/** A text of 2 to CONTEXT bytes, so that the network can predict at least one byte. */
function prompt(initial: string): Field<string> {
  return {
    initial,
    write: (text) => text,
    read(text) {
      const { length } = new TextEncoder().encode(text);
      if (length >= 2 && length <= CONTEXT) return text;
      throw new FieldError(
        plural(
          length,
          'has {n} byte; it must have from 2 to {most}',
          'has {n} bytes; it must have from 2 to {most}',
          { most: CONTEXT },
        ),
      );
    },
  };
}

export const PROMPTS = [
  {
    name: t`Revelation, not in training`,
    prompt:
      'And I saw a new heaven and a new earth: for the first heaven and the first earth were ',
  },
  {
    name: t`Genesis, in training`,
    prompt: 'In the beginning God created the heaven and the earth. And the ',
  },
  {
    name: t`Modern English`,
    prompt: 'The train to Berlin was late again, so we had a coffee at the sta',
  },
  { name: t`One letter`, prompt: 'a'.repeat(40) },
];

const layers = Array.from({ length: LAYERS }, (_, l) => String(l));

export const state = defineState('rm', {
  prompt: prompt(PROMPTS[0].prompt),
  /** The reader's guess of the position of the most important layer. */
  guess: answer(['none', 'first', 'middle', 'last']),
  part: choice(['layer', 'sublayer'], 'layer'),
  /** The layer that the second prediction skips. */
  skip: choice(['none', ...layers], 'none'),
});
