// Where a pointer is in a drawing.

/** In the drawing's own pixels, which a presentation makes larger than the screen's. */
export function pointIn({ currentTarget, clientX, clientY }: MouseEvent): [x: number, y: number] {
  const drawing = (currentTarget as SVGElement).ownerSVGElement!;
  const { left, top, width } = drawing.getBoundingClientRect();
  const scale = drawing.viewBox.baseVal.width / width;
  return [(clientX - left) * scale, (clientY - top) * scale];
}
