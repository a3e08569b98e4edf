// A text field whose value may be too long for a link.

import { t } from '../../language/text';
import { grouped } from '../../ui/numbers';
import { type Field, FieldError } from '../../state/fields';

/** The longest text that a link contains. A longer text is replaced by a key that only this page
 * can resolve. Undo and redo therefore work, and a link opened elsewhere shows a message. */
export const IN_LINK = 2000;
const KEPT = 50; // the number of long texts kept, the newest ones

export function longText(maxLength: number): Field<string> {
  const known = new Map<string, string>();
  return {
    initial: '',
    write(value) {
      if (value.length <= IN_LINK) return value;
      const name = `long:${value.length}:${hash(value)}`;
      known.delete(name); // makes it the newest
      known.set(name, value);
      if (known.size > KEPT) known.delete(known.keys().next().value!);
      return name;
    },
    read(text) {
      const name = /^long:(\d+):\w+$/.exec(text);
      if (name !== null) {
        const value = known.get(text);
        if (value !== undefined) return value;
        throw new FieldError(t`of ${name[1]} characters was too long for the link: paste it again`);
      }
      if (text.length <= maxLength) return text;
      const [has, most] = [text.length, maxLength].map(grouped);
      throw new FieldError(t`has ${has} characters; at most ${most} are allowed`);
    },
  };
}

/** The FNV-1a hash with 32 bits. */
function hash(text: string): string {
  let h = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 0x01000193);
  return (h >>> 0).toString(36);
}
