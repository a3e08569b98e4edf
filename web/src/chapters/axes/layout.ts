// The layout of the two maps of a batch: before and after a norm.

import type { Box } from '../../ui/marks';
import { type Batch, type Cell, featuresOf } from './sets';

export const TITLE = 26;
export const LABELS = 20;
const LEGEND = 36;
const GAP = 28; // between the maps

export interface Layout {
  height: number;
  maps: readonly [Box, Box]; // the cells, without the labels around them
}

/** Puts the maps side by side if the numbers then fit. */
export function layoutOf(width: number, batch: Batch): Layout {
  const narrow = width < 600;
  const margin = narrow ? 24 : 70;
  const beside = !narrow && featuresOf(batch) <= 8;
  const outer = beside ? (width - GAP) / 2 : width;
  const height = batch.samples * (narrow ? 30 : 36);
  const map = (left: number, top: number): Box => ({
    x: left + margin,
    y: top + TITLE + LABELS,
    width: outer - margin - 6,
    height,
  });
  const full = TITLE + LABELS + height + LEGEND;
  const maps = [map(0, 0), beside ? map(outer + GAP, 0) : map(0, full)] as const;
  return { height: beside ? full : 2 * full, maps };
}

/** The cell at a point of the figure; null outside the maps. */
export function cellAt({ maps }: Layout, batch: Batch, x: number, y: number): Cell | null {
  for (const box of maps) {
    const column = Math.floor(((x - box.x) / box.width) * featuresOf(batch));
    const row = Math.floor(((y - box.y) / box.height) * batch.samples);
    const inside = column >= 0 && column < featuresOf(batch) && row >= 0 && row < batch.samples;
    if (inside) return { row, column };
  }
  return null;
}

export function cellBox(box: Box, batch: Batch, { row, column }: Cell): Box {
  const width = box.width / featuresOf(batch);
  const height = box.height / batch.samples;
  return { x: box.x + column * width, y: box.y + row * height, width, height };
}
