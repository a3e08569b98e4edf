// A figure as a file: its drawing as SVG or PNG in its current colours, or its numbers.

import { plainText } from './numbers';

/** Properties that a style sheet sets and that an SVG file needs as attributes. */
const STYLES = [
  'fill-opacity',
  'stroke-opacity',
  'stroke-width',
  'stroke-dasharray',
  'stroke-linecap',
  'stroke-linejoin',
  'opacity',
  'paint-order',
  'font-family',
  'font-size',
  'font-style',
  'font-weight',
  'text-anchor',
  'transform',
];
/** Elements for the pointer, which are not saved. */
const UNSAVED =
  '[role="slider"], .plot-pointer, .reading, .selection, .an-spot, .an-values, .lanes-flow';

export function svgOf(drawing: SVGSVGElement): string {
  const copy = drawing.cloneNode(true) as SVGSVGElement;
  const originals = drawing.querySelectorAll('*');
  copy.querySelectorAll('*').forEach((element, i) => setStyles(element, originals[i]));
  copy.querySelectorAll(UNSAVED).forEach((element) => element.remove());
  setStyles(copy, drawing);
  copy.removeAttribute('class');
  copy.setAttribute('xmlns', 'http://www.w3.org/2000/svg');
  const ground = document.createElementNS('http://www.w3.org/2000/svg', 'rect');
  ground.setAttribute('width', '100%');
  ground.setAttribute('height', '100%');
  setColour(ground, 'fill', getComputedStyle(drawing).backgroundColor);
  copy.prepend(ground);
  return new XMLSerializer().serializeToString(copy);
}

function setStyles(copy: Element, original: Element): void {
  const computed = getComputedStyle(original);
  for (const name of STYLES) {
    const value = computed.getPropertyValue(name);
    if (value && value !== 'none') copy.setAttribute(name, value);
  }
  for (const name of ['fill', 'stroke']) setColour(copy, name, computed.getPropertyValue(name));
  copy.removeAttribute('style');
}

/** Sets a colour in a form that every program reads: without alpha, which has its own attribute. */
function setColour(element: Element, name: string, computed: string): void {
  const [, srgb, numbers] = /^(?:rgba?|color)\((srgb )?(.*)\)$/.exec(computed) ?? [];
  const [red, green, blue, alpha] = numbers?.split(/[\s,/]+/).map(Number) ?? [];
  const parts = [red, green, blue].map((part) => Math.round(srgb ? 255 * part : part));
  element.setAttribute(name, numbers ? `rgb(${parts.join(', ')})` : computed);
  if (alpha !== undefined) element.setAttribute(`${name}-opacity`, String(alpha));
}

const PIXELS = 2; // pixels of a PNG per pixel of the drawing

export async function pngOf(drawing: SVGSVGElement): Promise<Blob> {
  const { width, height } = drawing.getBoundingClientRect();
  const image = new Image(PIXELS * width, PIXELS * height);
  image.src = `data:image/svg+xml,${encodeURIComponent(svgOf(drawing))}`;
  await image.decode();
  const canvas = document.createElement('canvas');
  [canvas.width, canvas.height] = [image.width, image.height];
  canvas.getContext('2d')!.drawImage(image, 0, 0, image.width, image.height);
  return pngOfCanvas(canvas);
}

export function pngOfCanvas(canvas: HTMLCanvasElement): Promise<Blob> {
  return new Promise((resolve) => canvas.toBlob((blob) => resolve(blob!)));
}

/** The figure's tables as CSV, one after another. */
export function csvOf(figure: HTMLElement): string {
  const tables = [...figure.querySelectorAll<HTMLTableElement>('.numbers table')];
  const text = ({ textContent }: Element) => {
    const plain = plainText(textContent!);
    return /[",\n]/.test(plain) ? `"${plain.replaceAll('"', '""')}"` : plain;
  };
  return tables
    .map((table) => [...table.rows].map((row) => [...row.cells].map(text).join() + '\n').join(''))
    .join('\n');
}

/** The name of a file for a picture of this name. */
export function fileName(name: string): string {
  const words = name.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, '-');
  return words.slice(0, 50).replace(/^-|-$/g, '');
}

export function download(name: string, content: Blob): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
