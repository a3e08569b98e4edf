// The form of a message: "A stack of {0} layers", "See <0>the lab</0>". plugins/messages.ts reads the
// sources by the same rules. This file does not depend on the language, so workers can import it.

/** The message of a template. A line break in it becomes a space. */
export function templateOf(parts: readonly string[]): string {
  const text = parts.map((part, i) => (i === 0 ? part : `{${i - 1}}${part}`)).join('');
  return text.replace(/\s*\n\s*/g, ' ').trim();
}

/** The message with its values filled in. */
export function filled(message: string, values: object): string {
  const named = values as Record<string, unknown>;
  return message.replace(/\{(\w+)\}/g, (all, name) => (name in named ? String(named[name]) : all));
}

/** Matches placeholders: values, elements with content, and elements without content. */
export const PLACES = /\{(\w+)\}|<(\d+)>(.*?)<\/\2>|<(\d+)\/>/g;

/** The placeholder of an element in a message. */
export function tagged(number: number, content: string): string {
  return content === '' ? `<${number}/>` : `<${number}>${content}</${number}>`;
}

/** Marks a text that translated() translates elsewhere. It stays English here. */
export function msg(parts: TemplateStringsArray): string {
  return templateOf(parts);
}
