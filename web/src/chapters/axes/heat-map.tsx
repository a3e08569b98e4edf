// A heat map of a batch. The cells that share a mean with the chosen cell are highlighted.

import type { Kind } from 'addnorm';
import { t } from '../../language/text';
import { type Box, Label } from '../../ui/marks';
import { alignedNumbers, exactNumber, fixedNumber, shortNumber } from '../../ui/numbers';
import { textWidth } from '../../ui/text-width';
import { largest } from '../../ui/vectors';
import { tint } from '../../ui/tint';
import { cellBox, LABELS, TITLE } from './layout';
import { type Batch, type Cell, featuresOf, setOf } from './sets';

interface HeatMapProps {
  box: Box;
  title: string;
  kind: Kind;
  batch: Batch;
  values: Float64Array;
  cell: Cell; // its set is highlighted
}

export function HeatMap(props: HeatMapProps) {
  const { box, kind, batch, values, cell } = props;
  const most = largest(values) || 1;
  const chosen = setOf(kind, batch, cell);
  const isLit = (other: Cell) => setOf(kind, batch, other) === chosen;
  const texts = textsIn(box.width / featuresOf(batch), [...values]);
  return (
    <>
      <Names {...props} />
      {cellsOf(batch).map((one, i) => {
        const place = cellBox(box, batch, one);
        return (
          <g key={i} class={isLit(one) ? 'axes-lit' : 'axes-unlit'}>
            <rect {...place} style={{ fill: tint(values[i] / most) }}>
              <title>{exactNumber(values[i])}</title>
            </rect>
            {texts && (
              <Label at={[place.x + place.width / 2, place.y + place.height / 2]}>{texts[i]}</Label>
            )}
          </g>
        );
      })}
      <Contour box={box} batch={batch} isLit={isLit} />
      <Chosen {...cellBox(box, batch, cell)} />
      <Legend box={box} most={most} />
    </>
  );
}

export function cellsOf(batch: Batch): Cell[] {
  const features = featuresOf(batch);
  return Array.from({ length: batch.samples * features }, (_, i) => ({
    row: Math.floor(i / features),
    column: i % features,
  }));
}

/** The numbers as texts if they fit into cells of this width, with fewer decimals where needed. */
function textsIn(width: number, values: number[]): string[] | undefined {
  const forms = [alignedNumbers(values), values.map((v) => fixedNumber(v, 1))];
  return forms.find((texts) => Math.max(...texts.map((text) => textWidth(text, 600))) < width - 8);
}

export function Names({ box, title, batch }: Pick<HeatMapProps, 'box' | 'title' | 'batch'>) {
  const span = box.width / batch.channels;
  const channel = (c: number) =>
    [t`channel ${c}`, t`ch ${c}`].find((name) => textWidth(name) < span - 8) ?? String(c);
  const sample = (row: number) => (box.x >= 60 ? t`sample ${row}` : String(row));
  const height = box.height / batch.samples;
  return (
    <>
      <Label at={[box.x, box.y - LABELS - TITLE / 2]} anchor="start" class="strong">
        {title}
      </Label>
      {Array.from({ length: batch.channels }, (_, c) => (
        <Label key={c} at={[box.x + (c + 0.5) * span, box.y - LABELS / 2]} class="faint">
          {channel(c + 1)}
        </Label>
      ))}
      {Array.from({ length: batch.samples }, (_, row) => (
        <Label key={row} at={[box.x - 7, box.y + (row + 0.5) * height]} anchor="end" class="faint">
          {sample(row + 1)}
        </Label>
      ))}
    </>
  );
}

interface ContourProps {
  box: Box;
  batch: Batch;
  isLit(cell: Cell): boolean;
}

/** A line around the highlighted cells, because colour alone is not accessible. */
export function Contour({ box, batch, isLit }: ContourProps) {
  const isInside = ({ row, column }: Cell) =>
    row >= 0 && row < batch.samples && column >= 0 && column < featuresOf(batch);
  const ends = (row: number, column: number) =>
    !isInside({ row, column }) || !isLit({ row, column });
  const path = cellsOf(batch)
    .filter(isLit)
    .map((cell) => {
      const { row, column } = cell;
      const { x, y, width, height } = cellBox(box, batch, cell);
      return [
        ends(row - 1, column) && `M${x} ${y}h${width}`,
        ends(row + 1, column) && `M${x} ${y + height}h${width}`,
        ends(row, column - 1) && `M${x} ${y}v${height}`,
        ends(row, column + 1) && `M${x + width} ${y}v${height}`,
      ]
        .filter(Boolean)
        .join('');
    });
  return <path class="line mean axes-contour" d={path.join('')} />;
}

function Chosen({ x, y, width, height }: Box) {
  const inset = width < 16 ? 1.5 : 3;
  const part = { x: x + inset, y: y + inset, width: width - 2 * inset, height: height - 2 * inset };
  return <rect class="axes-chosen" {...part} stroke-width={width < 16 ? 2 : 3} />;
}

const STRIPS = 25;
const STRIP = 4;

function Legend({ box, most }: { box: Box; most: number }) {
  const y = box.y + box.height + 16;
  const x = box.x + 42;
  return (
    <>
      {Array.from({ length: STRIPS }, (_, i) => (
        <rect
          key={i}
          x={x + i * STRIP}
          y={y - 4}
          width={STRIP}
          height={8}
          style={{ fill: tint((2 * i) / (STRIPS - 1) - 1) }}
        />
      ))}
      <Label at={[x - 6, y]} anchor="end" class="faint">
        {shortNumber(-most)}
      </Label>
      <Label at={[x + STRIPS * STRIP + 6, y]} anchor="start" class="faint">
        {shortNumber(most)}
      </Label>
    </>
  );
}
