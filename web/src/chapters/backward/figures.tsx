// The figures of “Backward”: the vectors that a reader drags, the results, and the parts of g.

import type { ComponentChildren } from 'preact';
import { t } from '../../language/text';
import { BarHandles } from '../../ui/bar-handles';
import { type BarChart, Bars, symmetricRange } from '../../ui/bars';
import { Figure } from '../../ui/figure';
import { Label } from '../../ui/marks';
import type { VectorRow } from '../../ui/table';
import { type Gradient, withoutRounding } from '../../kernels/gradient';
import { LIMIT, state } from './state';

const WIDTH = 1400;
const HEIGHT = 200; // the height of a row of panels
const LEAST = 210; // the minimum width of a panel
const TITLE = 26;
const SIGN = 24; // pixels before a panel for the sign that joins it to the previous one

interface Panel extends Pick<BarChart, 'values' | 'colour' | 'range' | 'ghost'> {
  title: string;
  sign: string;
}

/** The number of panels per row: four, two or one, as many as fit. */
function columnsIn(width: number): number {
  return [4, 2, 1].find((columns) => width / columns >= LEAST) ?? 1;
}

function chartOf(width: number, panel: Panel, i: number): BarChart {
  const columns = columnsIn(width);
  const box = {
    x: (i % columns) * (width / columns) + SIGN,
    y: Math.floor(i / columns) * HEIGHT + TITLE,
    width: width / columns - SIGN - 8,
    height: HEIGHT - TITLE - 4,
  };
  return { ...panel, box, zeroLine: true };
}

interface PanelsProps {
  name: string;
  panels: Panel[];
  rows: VectorRow[];
  handles?(width: number): ComponentChildren;
}

function Panels({ panels, ...props }: PanelsProps) {
  return (
    <Figure
      {...props}
      width={WIDTH}
      height={(width) => (HEIGHT * panels.length) / columnsIn(width)}
      draw={(width) =>
        panels.map((panel, i) => <PanelChart key={i} {...panel} chart={chartOf(width, panel, i)} />)
      }
    />
  );
}

function PanelChart({ title, sign, chart }: Panel & { chart: BarChart }) {
  const { x, y, width, height } = chart.box;
  return (
    <>
      <Label at={[x + width / 2, y - TITLE / 2 + 2]} class="strong" colour={chart.colour}>
        {title}
      </Label>
      <Label at={[x - SIGN / 2, y + height / 2]} class="bw-sign">
        {sign}
      </Label>
      <Bars {...chart} />
    </>
  );
}

/** x → x̂ forward and dy → dx backward. x and dy can be dragged. */
export function Through({ gradient, factor }: { gradient: Gradient; factor: number }) {
  const { x, normalized, g, dx, deviation, dGamma, dBeta } = gradient;
  const drawnDx = withoutRounding(dx, g, deviation);
  const dy = state.dy.value;
  const panels: Panel[] = [
    { title: 'x', sign: '', values: x, colour: 'var(--stream)', range: LIMIT * factor },
    { title: 'x̂', sign: '→', values: normalized, colour: 'var(--normalized)', range: LIMIT },
    { title: 'dy', sign: '', values: dy, colour: 'var(--gradient)', range: LIMIT },
    { title: 'dx', sign: '→', values: drawnDx, colour: 'var(--gradient)', range: LIMIT },
  ];
  const handles = (width: number) => {
    const limits = { limit: LIMIT, step: 0.1 };
    const [ofX, , ofDy] = panels.map((panel, i) => chartOf(width, panel, i));
    return (
      <>
        <BarHandles {...limits} chart={ofX} item={state.x} name={t`x value`} factor={factor} />
        <BarHandles {...limits} chart={ofDy} item={state.dy} name="dy" />
      </>
    );
  };
  return (
    <Panels
      name={t`Forward, x to x̂; backward, dy to dx`}
      panels={panels}
      rows={[
        { name: 'x', id: 'x', values: x },
        { name: 'x̂', id: 'normalized', values: normalized },
        { name: 'dy', id: 'dy', values: dy },
        { name: 'dx', id: 'dx', values: dx },
        { name: 'dγ = dy ⊙ x̂', id: 'd-gamma', values: dGamma },
        { name: 'dβ = dy', id: 'd-beta', values: dBeta },
      ]}
      handles={handles}
    />
  );
}

/** g = its mean + its part along x̂ + the remainder. The removed parts are outlines. */
export function Parts({ gradient, rms }: { gradient: Gradient; rms: boolean }) {
  const { g, alongOnes, alongNormalized, remainder } = gradient;
  const range = symmetricRange([...g, ...alongNormalized, ...remainder], LIMIT);
  const panel = (sign: string, title: string, values: readonly number[], ghost = false): Panel => ({
    sign,
    title,
    values: withoutRounding(values, g),
    colour: 'var(--gradient)',
    range,
    ghost,
  });
  return (
    <Panels
      name={t`The gradient g and its parts`}
      panels={[
        panel('', 'g = γ ⊙ dy', g),
        ...(rms ? [] : [panel('=', t`along 1: removed`, alongOnes, true)]),
        panel(rms ? '=' : '+', t`along x̂: removed`, alongNormalized, true),
        panel('+', t`remainder`, remainder),
      ]}
      rows={[
        { name: 'g = γ ⊙ dy', id: 'gradient', values: g },
        ...(rms ? [] : [{ name: 'mean(g)', id: 'gradient-mean', values: alongOnes }]),
        { name: 'x̂ · mean(g ⊙ x̂)', id: 'gradient-normalized', values: alongNormalized },
        { name: t`remainder`, id: 'remainder', values: remainder },
      ]}
    />
  );
}
