// The block from top to bottom: the stream on the left, the branches beside it.

import { COLOURS } from '../../ui/colours';
import { drawLine, drawText } from '../../ui/draw';
import type { Context, Size } from '../../ui/figure';
import { grouped } from '../../ui/numbers';
import type { Step } from './model';

export const WIDE: Size = { width: 460, height: 632 };
export const NARROW: Size = { width: 328, height: 632 };

const PITCH = 50;
const BOX = 30; // the height of one
const RADIUS = 12; // of a sum
const LINE = { width: 2.5, arrow: 9 };

interface Columns {
  skip: number;
  left: number; // of the boxes
  centre: number;
  right: number;
  words: number;
}

export function drawBlock(context: Context, size: Size, halves: [Step[], Step[]]): void {
  const wide = size.width > 400;
  const [skip, left, right] = wide ? [24, 52, 240] : [12, 28, 172];
  const columns = { skip, left, centre: (left + right) / 2, right, words: right + 12 };
  const { centre, words } = columns;
  const top = 28; // where x stands
  const middle = top + halves[0].length * PITCH;
  const bottom = middle + halves[1].length * PITCH;

  drawText(context, 'x', centre, top - 10, { size: 14, bold: true });
  drawText(context, halves[0].at(-1)!.shape, words, top - 10, { align: 'left' });
  drawLines(context, columns, top, halves[0]);
  drawText(context, 'h', centre + 14, middle + 25, { size: 14, bold: true });
  drawLines(context, columns, middle, halves[1]);
  drawLine(context, [centre, bottom, centre, bottom + 40], COLOURS.identity, LINE);
  drawText(context, 'y', centre + 14, bottom + 30, { size: 14, bold: true });

  const starts = [top, middle];
  halves.forEach((half, side) => {
    half.forEach((step, i) => drawStep(context, columns, starts[side] + (i + 1) * PITCH, step));
  });
}

/** Draws the lines of the half that begins at y: through its steps, and around its branch. */
function drawLines(context: Context, { centre, skip }: Columns, y: number, half: Step[]) {
  const yOf = (i: number) => y + (i + 1) * PITCH;
  const sum = half.findIndex((step) => step.kind === 'sum');
  const split = y + 23;
  half.forEach((_, i) => {
    const to = yOf(i) - (i === sum ? RADIUS : BOX / 2);
    const onStream = i > sum; // post-norm's norm stands in the stream itself
    const from = i === 0 ? split : yOf(i - 1);
    const colour = onStream ? COLOURS.identity : COLOURS.branch;
    drawLine(context, [centre, from, centre, to], colour, LINE);
  });
  const end = [centre - RADIUS, yOf(sum)];
  const way = [centre, y, centre, split, skip, split, skip, yOf(sum), ...end];
  drawLine(context, way, COLOURS.identity, LINE);
}

function drawStep(context: Context, columns: Columns, y: number, step: Step) {
  const { left, right, centre, words } = columns;
  const colour = step.kind === 'norm' ? COLOURS.stable : COLOURS.branch;
  context.fillStyle = COLOURS.ground;
  context.lineWidth = 2;
  context.beginPath();
  if (step.kind === 'sum') {
    context.strokeStyle = COLOURS.text;
    context.arc(centre, y, RADIUS, 0, 2 * Math.PI);
  } else {
    context.strokeStyle = colour;
    context.roundRect(left, y - BOX / 2, right - left, BOX, 5);
  }
  context.fill();
  context.stroke();
  const size = step.kind === 'sum' ? 17 : right - left > 160 ? 13 : 11;
  drawText(context, step.name, centre, y, { size });
  const style = { align: 'left', size: 12 } as const;
  drawText(context, step.shape, words, step.parameters > 0 ? y - 7 : y, style);
  if (step.parameters > 0) {
    const count = `${grouped(step.parameters)} parameters`;
    drawText(context, count, words, y + 9, { align: 'left', size: 10, colour: COLOURS.faint });
  }
}
