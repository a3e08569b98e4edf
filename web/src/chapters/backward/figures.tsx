// The figures of chapter 3: the vectors that a reader drags, the results, and the parts of g.

import { type BarChart, BarHandles, drawBars, symmetricRange } from '../../ui/bars';
import { COLOURS } from '../../ui/colours';
import { drawText } from '../../ui/draw';
import { type Context, Figure, type Size } from '../../ui/figure';
import type { VectorRow } from '../../ui/table';
import { type Gradient, withoutRounding } from './gradient';
import { LIMIT, state } from './state';

const SIZE: Size = { width: 900, height: 230 };
const NARROW: Size = { width: 320, height: 620 };
const TITLE = 26;
const SIGN = 24; // pixels left of a panel, for what joins it to the one before

interface Panel {
  title: string;
  sign: string;
  values: readonly number[];
  colour: string;
  range: number;
}

/** Four panels: side by side, or one below the other where it is narrow. */
function chartOf({ width, height }: Size, panel: Panel, i: number): BarChart {
  const row = width < SIZE.width;
  const cell = row ? { width, height: height / 4 } : { width: width / 4, height };
  return {
    box: {
      x: (row ? 0 : i * cell.width) + SIGN,
      y: (row ? i * cell.height : 0) + TITLE,
      width: cell.width - SIGN - 4,
      height: cell.height - TITLE - 4,
    },
    values: panel.values,
    colour: panel.colour,
    range: panel.range,
    zeroLine: true,
  };
}

function drawPanels(context: Context, size: Size, panels: Panel[]) {
  panels.forEach((panel, i) => {
    const chart = chartOf(size, panel, i);
    const { x, y, width, height } = chart.box;
    drawText(context, panel.title, x + width / 2, y - TITLE / 2 + 2, { size: 13 });
    drawText(context, panel.sign, x - SIGN / 2, y + height / 2, { size: 18, bold: true });
    drawBars(context, chart);
  });
}

interface PanelsProps {
  name: string;
  panels: Panel[];
  rows: VectorRow[];
  overlay?(size: Size): preact.ComponentChildren;
}

function Panels({ name, panels, rows, overlay }: PanelsProps) {
  const draw = (context: Context, size: Size) => drawPanels(context, size, panels);
  return (
    <Figure name={name} size={SIZE} narrow={NARROW} draw={draw} overlay={overlay} rows={rows} />
  );
}

/** x → x̂ forward, dy → dx backward. x and dy can be dragged. */
export function Through({ gradient, factor }: { gradient: Gradient; factor: number }) {
  const { x, normalized, g, dx, deviation, dGamma, dBeta } = gradient;
  const drawnDx = withoutRounding(dx, g, deviation);
  const dy = state.dy.value;
  const panels: Panel[] = [
    { title: 'x', sign: '', values: x, colour: COLOURS.identity, range: LIMIT * factor },
    { title: 'x̂', sign: '→', values: normalized, colour: COLOURS.stable, range: LIMIT },
    { title: 'dy', sign: '', values: dy, colour: COLOURS.branch, range: LIMIT },
    { title: 'dx', sign: '→', values: drawnDx, colour: COLOURS.output, range: LIMIT },
  ];
  const handles = (size: Size) => {
    const common = { size, limit: LIMIT, step: 0.1 };
    const [ofX, , ofDy] = panels.map((panel, i) => chartOf(size, panel, i));
    return (
      <>
        <BarHandles {...common} chart={ofX} item={state.x} name="x value" factor={factor} />
        <BarHandles {...common} chart={ofDy} item={state.dy} name="dy" />
      </>
    );
  };
  return (
    <Panels
      name="Forward, x to x̂; backward, dy to dx"
      panels={panels}
      rows={[
        { name: 'x', id: 'x', values: x },
        { name: 'x̂', id: 'normalized', values: normalized },
        { name: 'dy', id: 'dy', values: dy },
        { name: 'dx', id: 'dx', values: dx },
        { name: 'dγ = dy ⊙ x̂', id: 'd-gamma', values: dGamma },
        { name: 'dβ = dy', id: 'd-beta', values: dBeta },
      ]}
      overlay={handles}
    />
  );
}

/** g = its mean + its part along x̂ + what remains. */
export function Parts({ gradient, rms }: { gradient: Gradient; rms: boolean }) {
  const { g, alongOnes, alongNormalized, remainder } = gradient;
  const range = symmetricRange([...g, ...alongNormalized, ...remainder], LIMIT);
  const panel = (sign: string, title: string, values: readonly number[], colour: string) => ({
    sign,
    title,
    values: withoutRounding(values, g),
    colour,
    range,
  });
  const alongOne = rms ? 'along 1: not removed' : 'along 1: removed';
  return (
    <Panels
      name="The gradient g and its three parts"
      panels={[
        panel('', 'g = γ ⊙ dy', g, COLOURS.branch),
        panel('=', alongOne, alongOnes, COLOURS.unstable),
        panel('+', 'along x̂: removed', alongNormalized, COLOURS.unstable),
        panel('+', 'remainder', remainder, COLOURS.output),
      ]}
      rows={[
        { name: 'g = γ ⊙ dy', id: 'gradient', values: g },
        { name: 'mean(g)', id: 'gradient-mean', values: alongOnes },
        { name: 'x̂ · mean(g ⊙ x̂)', id: 'gradient-normalized', values: alongNormalized },
        { name: 'remainder', id: 'remainder', values: remainder },
      ]}
    />
  );
}
