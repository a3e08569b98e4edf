// The hero as a picture to save: its verdict, its lanes and its sentence.

import { t } from '../language/text';
import { download, fileName, pngOfCanvas } from '../ui/picture';
import { ownColour } from './picture';
import { bytesOf } from './stack';

const EDGE = 24; // in pixels of the page
const LETTERS = 40; // the height of the sentence's line

/** Saves the lanes in the colours of the current theme. */
export async function saveHero(hero: HTMLElement, verdict: string, sentence: string) {
  const lanes = hero.querySelector<HTMLCanvasElement>('.hero-lanes')!;
  const scale = lanes.width / lanes.clientWidth;
  const [width, height] = [lanes.clientWidth, lanes.clientHeight];
  const top = 2 * EDGE + LETTERS;
  const picture = document.createElement('canvas');
  picture.width = lanes.width;
  picture.height = Math.round(scale * (top + height + LETTERS + EDGE));
  const context = picture.getContext('2d')!;
  const { backgroundColor, color, fontFamily } = getComputedStyle(hero);
  context.fillStyle = backgroundColor;
  context.fillRect(0, 0, picture.width, picture.height);
  context.scale(scale, scale);
  context.drawImage(lanes, 0, top, width, height);
  context.fillStyle = color;
  context.font = `600 ${LETTERS * 0.7}px ${fontFamily}`;
  context.fillText(`Add & Norm. ${verdict}`, EDGE, EDGE + LETTERS);
  drawSentence(context, sentence, width, top + height + 0.6 * LETTERS);
  download(`${fileName(t`Add & Norm, to see, touch and try`)}.png`, await pngOfCanvas(picture));
}

/** Each character under the lane of its first byte. */
function drawSentence(context: CanvasRenderingContext2D, text: string, width: number, y: number) {
  const tokens = bytesOf(text).length;
  context.font = `700 ${Math.min(20, (1.4 * width) / tokens)}px ui-monospace, monospace`;
  context.textAlign = 'center';
  let byte = 0;
  for (const character of text) {
    const [red, green, blue] = ownColour(byte, tokens).map((v) => Math.round(255 * v));
    context.fillStyle = `rgb(${red} ${green} ${blue})`;
    context.fillText(character, ((byte + 0.4) * width) / tokens, y);
    byte += bytesOf(character).length;
  }
}
