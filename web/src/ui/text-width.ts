// The width of text in drawings.

export const FONT_SIZE = 12; // the smallest size that is easy to read

const known = new Map<string, number>();
let context: CanvasRenderingContext2D | undefined;

/** The text in lines of at most this width, broken at spaces. */
export function linesOf(text: string, width: number): string[] {
  const lines: string[] = [];
  for (const word of text.split(' ')) {
    const longer = `${lines.at(-1)} ${word}`;
    if (lines.length > 0 && textWidth(longer) <= width) lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  return lines;
}

export function textWidth(text: string, weight = 400): number {
  const key = `${weight} ${text}`;
  let width = known.get(key);
  if (width === undefined) {
    context ??= document.createElement('canvas').getContext('2d')!;
    context.font = `${weight} ${FONT_SIZE}px system-ui, sans-serif`;
    width = context.measureText(text).width;
    known.set(key, width);
  }
  return width;
}
