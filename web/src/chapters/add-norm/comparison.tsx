// How Inject Instability changes x̂: x̂ stays in range, but it is a different vector.

import { drawBars } from '../../ui/bars';
import { COLOURS } from '../../ui/colours';
import { drawAcross, drawText } from '../../ui/draw';
import { type Box, type Context, Figure, type Size } from '../../ui/figure';
import { roundNumber } from '../../ui/numbers';
import { Statistics } from '../../ui/table';
import { comparison, result } from './compute';
import { FEATURES, state } from './state';
import { cosineText, verdict } from './verdict';

const RANGE = 2.2; // no x̂ of five values is beyond 2
const WIDE = { width: 560, height: 210 };
const NARROW = { width: 328, height: 210 };

export function Comparison() {
  const c = comparison.value;
  return (
    <>
      <p class="an-verdict">{verdict(c, state.unstable.value, state.residual.value)}</p>
      <Statistics
        look="cards"
        rows={[
          ['with-stable', 'cosine of x̂ with the stable x̂', cosineText(c.withStable)],
          ['with-branch', 'cosine of x̂ with LayerNorm(F)', cosineText(c.withBranch)],
          ['with-x', 'cosine of x̂ with LayerNorm(x)', cosineText(c.withX)],
          ['deviation-ratio', 'σ now ÷ stable σ', roundNumber(c.deviationRatio, 5)],
          [
            'gradient-ratio',
            'gradient through the norm, now ÷ stable',
            roundNumber(c.gradientRatio, 5),
          ],
        ]}
      />
      <Figure
        name="For each of the five features three bars: the stable x̂, x̂ now, and LayerNorm(F)."
        size={WIDE}
        narrow={NARROW}
        draw={drawComparison}
        caption="x̂ compared"
        rows={[
          { name: 'stable x̂', id: 'stable-normalized', values: c.stable },
          { name: 'x̂ now', id: 'normalized-now', values: result.value.normalized },
          { name: 'LayerNorm(F)', id: 'branch-normalized', values: c.ofBranch },
          { name: 'LayerNorm(x)', id: 'x-normalized', values: c.ofX },
        ]}
      />
    </>
  );
}

function drawComparison(context: Context, { width, height }: Size) {
  const series = [
    { name: 'stable x̂', colour: COLOURS.stable, values: comparison.value.stable },
    { name: 'x̂ now', colour: COLOURS.identity, values: result.value.normalized },
    { name: 'LayerNorm(F)', colour: COLOURS.branch, values: comparison.value.ofBranch },
  ];
  const all: Box = { x: 8, y: 24, width: width - 16, height: height - 44 };
  const group = all.width / FEATURES;
  const bar = (group * 0.8) / series.length;
  series.forEach(({ name, colour, values }, s) => {
    drawLegend(context, name, colour, 12 + s * Math.min(150, all.width / 3));
    values.forEach((v, i) => {
      const box = { ...all, x: all.x + i * group + group * 0.1 + s * bar, width: bar };
      drawBars(context, { box, values: [v], colour, range: RANGE, labels: false });
    });
  });
  drawAcross(context, all, all.y + all.height / 2, COLOURS.zero);
  for (let i = 0; i < FEATURES; ++i) {
    const style = { colour: COLOURS.faint, size: 11 };
    drawText(context, String(i + 1), all.x + (i + 0.5) * group, height - 10, style);
  }
}

function drawLegend(context: Context, name: string, colour: string, x: number) {
  context.fillStyle = colour;
  context.fillRect(x, 9, 12, 12);
  drawText(context, name, x + 17, 16, { align: 'left', size: 12 });
}
