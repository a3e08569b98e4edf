// The labels in a drawing of the library, which is SVG text.

/** Matches a label. Consecutive lines of text are one label, except for the ticks of an axis. */
const LABEL =
  /<(text|title|desc)\b((?:(?! y=")[^>])*)(?: y="[^"]*")?([^>]*)>[^<]*<\/\1>(?:<\1\2(?: y="[^"]*")?(?! text-anchor="end")\3>[^<]*<\/\1>)*/g;
const CONTENT = /(?<=>)[^<]+(?=<)/g;

/** The drawing with each label changed. A label of several lines is split
 * into the same number of lines. */
export function withLabels(svg: string, change: (label: string) => string): string {
  return svg.replace(LABEL, (elements) => {
    const lines = elements.match(CONTENT) ?? [];
    const changed = broken(change(unescaped(lines.join(' '))), lines.length);
    return elements.replace(CONTENT, () => escaped(changed.shift()!));
  });
}

/** Splits the text at spaces into lines of about equal length. */
function broken(text: string, count: number): string[] {
  const lines: string[] = [];
  for (let rest = text; count > 0; --count) {
    const most = Math.ceil(rest.length / count);
    const space = count === 1 ? -1 : rest.indexOf(' ', most - 1);
    const end = space === -1 ? rest.length : space;
    lines.push(rest.slice(0, end));
    rest = rest.slice(end + 1);
  }
  return lines;
}

const ENTITIES = [
  ['&lt;', '<'],
  ['&gt;', '>'],
  ['&amp;', '&'],
] as const;

function unescaped(xml: string): string {
  return ENTITIES.reduce((text, [entity, character]) => text.replaceAll(entity, character), xml);
}

function escaped(text: string): string {
  return ENTITIES.reduceRight(
    (xml, [entity, character]) => xml.replaceAll(character, entity),
    text,
  );
}
