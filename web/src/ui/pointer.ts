// The position of a pointer in a drawing.

/** The position in the drawing's own pixels. A presentation scales them. */
export function pointIn({ currentTarget, clientX, clientY }: MouseEvent): [x: number, y: number] {
  const drawing = (currentTarget as SVGElement).ownerSVGElement!;
  const { left, top, width } = drawing.getBoundingClientRect();
  const scale = drawing.viewBox.baseVal.width / width;
  return [(clientX - left) * scale, (clientY - top) * scale];
}
