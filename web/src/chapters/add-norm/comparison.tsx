// How Inject Instability changes x̂: x̂ stays in range, but it is a different vector.

import { WithTerms } from '../../glossary/view';
import { t } from '../../language/text';
import { type BarChart, Bars } from '../../ui/bars';
import { Figure } from '../../ui/figure';
import { Across, type Box, Label } from '../../ui/marks';
import { roundNumber } from '../../ui/numbers';
import { Statistics } from '../../ui/table';
import { Compass } from './compass';
import { comparison, result } from './compute';
import { FEATURES, state } from './state';
import { cosineText, verdict } from './verdict';

const RANGE = 2.2; // |x̂ᵢ| ≤ 2 for five values
const HEIGHT = 210;

export function Comparison() {
  const c = comparison.value;
  return (
    <>
      <p class="an-verdict">
        <WithTerms text={verdict(c, state.unstable.value, state.residual.value)} />
      </p>
      <Statistics
        look="cards"
        rows={[
          ['with-stable', t`cosine of x̂ with the stable x̂`, cosineText(c.withStable, 4)],
          ['with-branch', t`cosine of x̂ with LayerNorm(F)`, cosineText(c.withBranch, 4)],
          ['with-x', t`cosine of x̂ with LayerNorm(x)`, cosineText(c.withX, 4)],
          ['deviation-ratio', t`σ now ÷ stable σ`, roundNumber(c.deviationRatio, 5)],
          [
            'gradient-ratio',
            t`gradient through the norm, now ÷ stable`,
            roundNumber(c.gradientRatio, 5),
          ],
        ]}
      />
      <div class="an-compared">
        <Figure
          title={t`x̂, feature by feature`}
          name={t`Each of the five features has three bars: the stable x̂, the current x̂, and LayerNorm(F).`}
          width={560}
          height={HEIGHT}
          draw={(width) => <Groups width={width} />}
          caption={t`x̂ compared`}
          rows={[
            { name: t`stable x̂`, id: 'stable-normalized', values: c.stable },
            { name: t`x̂ now`, id: 'normalized-now', values: result.value.normalized },
            { name: 'LayerNorm(F)', id: 'branch-normalized', values: c.ofBranch },
            { name: 'LayerNorm(x)', id: 'x-normalized', values: c.ofX },
          ]}
        />
        <Compass />
      </div>
    </>
  );
}

type Series = Pick<BarChart, 'values' | 'colour' | 'ghost'> & { name: string };

function Groups({ width }: { width: number }) {
  const series: Series[] = [
    { name: t`stable x̂`, colour: 'var(--axis)', values: comparison.value.stable, ghost: true },
    { name: t`x̂ now`, colour: 'var(--normalized)', values: result.value.normalized },
    { name: 'LayerNorm(F)', colour: 'var(--branch)', values: comparison.value.ofBranch },
  ];
  const all: Box = { x: 8, y: 24, width: width - 16, height: HEIGHT - 44 };
  const group = all.width / FEATURES;
  const bar = (group * 0.8) / series.length;
  return (
    <>
      {series.map((one, s) => (
        <g key={one.name}>
          <Key {...one} x={12 + s * Math.min(150, all.width / 3)} />
          {one.values.map((v, i) => {
            const box = { ...all, x: all.x + i * group + group * 0.1 + s * bar, width: bar };
            return <Bars key={i} {...one} box={box} values={[v]} range={RANGE} labels={false} />;
          })}
        </g>
      ))}
      <Across box={all} y={all.y + all.height / 2} class="zero" />
      {Array.from({ length: FEATURES }, (_, i) => (
        <Label key={i} at={[all.x + (i + 0.5) * group, HEIGHT - 11]} class="faint">
          {i + 1}
        </Label>
      ))}
    </>
  );
}

function Key({ name, colour, ghost, x }: Series & { x: number }) {
  const paint = ghost ? { class: 'ghost', stroke: colour } : { fill: colour };
  return (
    <>
      <rect x={x} y={10} width={12} height={12} {...paint} />
      <Label at={[x + 17, 16]} anchor="start">
        {name}
      </Label>
    </>
  );
}
