// What a message looks like: "A stack of {0} layers", "See <0>the lab</0>". The sources are read by the
// same rules (plugins/messages.ts). Nothing here depends on the language, so workers may have it too.

/** The message of a template. A line break in it is a space. */
export function templateOf(parts: readonly string[]): string {
  const text = parts.map((part, i) => (i === 0 ? part : `{${i - 1}}${part}`)).join('');
  return text.replace(/\s*\n\s*/g, ' ').trim();
}

/** The message with its values in place. */
export function filled(message: string, values: object): string {
  const named = values as Record<string, unknown>;
  return message.replace(/\{(\w+)\}/g, (all, name) => (name in named ? String(named[name]) : all));
}

/** Places of values, of elements with content, and of elements without. */
export const PLACES = /\{(\w+)\}|<(\d+)>(.*?)<\/\2>|<(\d+)\/>/g;

/** How an element stands in a message. */
export function tagged(number: number, content: string): string {
  return content === '' ? `<${number}/>` : `<${number}>${content}</${number}>`;
}

/** Marks a text that is written here and translated elsewhere, by translated(). It stays English. */
export function msg(parts: TemplateStringsArray): string {
  return templateOf(parts);
}

const NUMBER = /(?<![\p{L}\d_])[−+-]?\d+(?:[.,]\d+)*(?:e[−+-]?\d+)?(?![\p{L}\d_])/gu;

const SEAMS = /(; |: |(?<!\b(?:al|eq))\.(?: |$)| \((?=[^()]*\)\.?$)|(?<= \([^()]*)\)\.?$)/;

/** A text of the library in parts that it is made of, with what stands between them: "; ", " (". */
export function pieces(text: string): string[] {
  return text.split(SEAMS).filter(Boolean);
}

/** A piece as a message, and the numbers in it. */
export function withoutNumbers(text: string): [message: string, numbers: string[]] {
  const numbers: string[] = [];
  return [text.replace(NUMBER, (number) => `{${numbers.push(number) - 1}}`), numbers];
}
