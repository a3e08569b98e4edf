// The bar charts of the steps.

import { useMemo, useRef, useState } from 'preact/hooks';
import { t } from '../../language/text';
import { BarHandles } from '../../ui/bar-handles';
import { type BarChart, Bars, heightScale, symmetricRange } from '../../ui/bars';
import { Figure, type FigureProps } from '../../ui/figure';
import { Across, Label } from '../../ui/marks';
import type { VectorRow } from '../../ui/table';
import { state } from './state';

const WIDTH = 480;
const HEIGHT = 170;
const TARGET = 24; // the minimum touch target in pixels
const LABEL = 32; // the minimum width for a label in pixels
export const NOT_A_NUMBER = 'NaN: 0 ÷ 0'; // the same in every language

interface StepChartProps {
  name: string;
  row: VectorRow;
  colour: string;
  range: number;
  mean?: number;
  spread?: number; // dotted lines at ± this value
  handles?: FigureProps['handles'];
  rows?: VectorRow[]; // the table's rows; by default only the drawn one
}

function chartOf(
  width: number,
  { row: { values }, colour, range, mean }: StepChartProps,
): BarChart {
  const box = { x: 6, y: 4, width: width - 12, height: HEIGHT - 8 };
  const labels = box.width / values.length >= LABEL;
  return { box, values, colour, range, zeroLine: true, mean, labels };
}

function Step({ width, ...props }: StepChartProps & { width: number }) {
  if (props.row.values.some(Number.isNaN)) {
    return <Label at={[width / 2, HEIGHT / 2]}>{NOT_A_NUMBER}</Label>;
  }
  const chart = chartOf(width, props);
  const y = heightScale(chart);
  const { spread } = props;
  return (
    <>
      <Bars {...chart} />
      {spread !== undefined &&
        [spread, -spread].map((v) => (
          <Across key={v} box={chart.box} y={y(v)} class="zero" width={1.5} dash="2 4" />
        ))}
    </>
  );
}

/** A chart that is drawn again only when its own numbers change. */
export function StepChart(props: StepChartProps) {
  const { name, row, range, mean, spread, handles, rows = [row] } = props;
  return useMemo(
    () => (
      <Figure
        name={name}
        width={WIDTH}
        height={HEIGHT}
        draw={(width) => <Step width={width} {...props} />}
        handles={handles}
        rows={rows}
      />
    ),
    [name, row.values, range, mean, spread],
  );
}

/** The reader's own values. Each bar can be dragged if there are few. */
export function InputChart({ x, mean }: { x: readonly number[]; mean?: number }) {
  const fits = (width: number) => (width - 12) / x.length >= TARGET;
  const room = fits(WIDTH) ? 1.25 : 1; // leaves room above the largest bar for dragging
  const fitting = symmetricRange(
    x.map((v) => room * v),
    leastRange(x),
  );
  const held = useRef(fitting);
  const [dragged, setDragged] = useState(false);
  // The scale is fixed while a bar is dragged; otherwise the bar would move away from the pointer.
  if (!dragged) held.current = fitting;
  const range = held.current;
  const row = { name: 'x', id: 'x', values: x };
  const chart = { name: t`The values`, row, colour: 'var(--stream)', range, mean };
  const handles = (width: number) =>
    fits(width) && (
      <BarHandles
        chart={chartOf(width, chart)}
        item={state.x}
        name={t`value`}
        limit={range}
        step={10 ** Math.floor(Math.log10(range / 50))}
      />
    );
  return (
    <div
      onGotPointerCapture={() => setDragged(true)}
      onLostPointerCapture={() => setDragged(false)}
    >
      <StepChart
        {...chart}
        handles={handles}
        rows={[row, { name: t`s = x: no branch here`, id: 'sum', values: x }]}
      />
    </div>
  );
}

/** The minimum range of a chart. Small values fill their chart like large
 * ones; only zeros need a minimum. */
export function leastRange(values: readonly number[]): number {
  return values.some((v) => v !== 0) ? Number.MIN_VALUE : 1;
}
