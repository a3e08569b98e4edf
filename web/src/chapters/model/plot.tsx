// Shared parts of the figures of a reading: names, sizes, and a plot of columns.

import { scaleLinear } from 'd3-scale';
import { t } from '../../language/text';
import { linearDomain } from '../../ui/axes';
import { type Box, Label } from '../../ui/marks';
import { textWidth } from '../../ui/text-width';

export const EDGE = 12;
export const LINE = 16;

export const ATTENTION = { name: t`attention`, colour: 'var(--series-1)' };
export const FEED_FORWARD = { name: t`feed-forward`, colour: 'var(--series-3)' };
export const FINAL = { name: t`final norm`, colour: 'var(--series-4)' };
/** The kind of a sublayer, with sublayers counted over all layers. */
export const partOf = (sublayer: number) => (sublayer % 2 === 0 ? ATTENTION : FEED_FORWARD);

export interface Named {
  name: string;
  colour: string;
}

/** Names in a row above a plot, each with its colour. */
export function Names({ names }: { names: readonly Named[] }) {
  let x = EDGE;
  return names.map(({ name, colour }) => {
    const at = x;
    x += 12 + textWidth(name, 600) + LINE;
    return (
      <g key={name} transform={`translate(${at} ${EDGE + 4})`}>
        <circle r={4} cx={4} fill={colour} />
        <Label at={[13, 0]} anchor="start" class="strong" colour={colour}>
          {name}
        </Label>
      </g>
    );
  });
}

interface PlotSize {
  width: number;
  height: number;
}

/** The scales of a plot with a y axis and `count` columns. */
export function columns(count: number, domain: [number, number], { width, height }: PlotSize) {
  const top = EDGE + 2 * LINE;
  const box: Box = { x: 44, y: top, width: width - 44 - EDGE, height: height - top - 36 };
  const y = scaleLinear(linearDomain(...domain), [box.y + box.height, box.y]).nice();
  const step = box.width / count;
  return { box, y, step, centre: (i: number) => box.x + (i + 0.5) * step };
}

/** The names of layers below their columns. Each layer has `each` columns. */
export function LayerNames({
  box,
  step,
  layers,
  each,
}: {
  box: Box;
  step: number;
  layers: number;
  each: number;
}) {
  const y = box.y + box.height + 13;
  return (
    <>
      {Array.from({ length: layers }, (_, l) => (
        <Label key={l} at={[box.x + each * (l + 0.5) * step, y]} class="faint">
          {l}
        </Label>
      ))}
      <Label at={[box.x + 0.5 * each * layers * step, y + 15]} class="faint">
        {t`layer`}
      </Label>
    </>
  );
}
