// The directions of x̂, LayerNorm(x) and LayerNorm(F), which have equal length. The
// centred s is a sum of the centred x and F, so x̂ lies in the plane of the other two. The
// flat picture is therefore exact.

import { t } from '../../language/text';
import { Figure } from '../../ui/figure';
import { Line } from '../../ui/marks';
import { comparison, cosine } from './compute';

const WIDTH = 300;
const HEIGHT = 210;
const RADIUS = 92;
/** The position of a needle's name: outside the circle, because x̂ often lies close to LN(F). */
const BEYOND = `translate(${RADIUS + 24}px, 0)`;
const BESIDE = `translate(${0.6 * RADIUS}px, 17px)`;
const CENTRE = { x: WIDTH / 2, y: HEIGHT - 60 };

export function Compass() {
  const { ofX, ofBranch, withX, stableWithX } = comparison.value;
  const angles = [0, cosine(ofX, ofBranch), withX, stableWithX].map((c, i) => (i ? degrees(c) : 0));
  if (angles.some(Number.isNaN)) return null;
  const [, branch, now, stable] = angles;
  return (
    <Figure
      title={t`x̂ as a direction`}
      name={t`Arrows of equal length from one point: LayerNorm(x), LayerNorm(F), and x̂ between them.`}
      width={WIDTH}
      height={HEIGHT}
      draw={() => (
        <g transform={`translate(${CENTRE.x} ${CENTRE.y})`}>
          <path class="line zero" d={`M${RADIUS} 0A${RADIUS} ${RADIUS} 0 0 0 ${-RADIUS} 0`} />
          <Needle angle={0} name="LN(x)" colour="var(--stream)" />
          <Needle angle={branch} name="LN(F)" colour="var(--branch)" />
          <Needle angle={stable} name="" colour="var(--axis)" dash="3 4" />
          <Needle angle={now} name="x̂" colour="var(--normalized)" strong />
        </g>
      )}
      caption={t`Angles from LayerNorm(x), in degrees`}
      rows={[
        { name: t`stable x̂`, id: 'stable-angle', values: [stable] },
        { name: t`x̂ now`, id: 'angle', values: [now] },
        { name: 'LayerNorm(F)', id: 'branch-angle', values: [branch] },
      ]}
    />
  );
}

function degrees(cosine: number): number {
  return (180 / Math.PI) * Math.acos(Math.min(1, Math.max(-1, cosine)));
}

interface NeedleProps {
  angle: number;
  name: string;
  colour: string;
  dash?: string;
  strong?: boolean;
}

function Needle({ angle, name, colour, dash, strong }: NeedleProps) {
  const length = strong ? RADIUS : RADIUS - 2;
  return (
    <g class="an-needle" style={{ transform: `rotate(${-angle}deg)` }}>
      <Line
        points={[
          [0, 0],
          [length, 0],
        ]}
        colour={colour}
        width={strong ? 4 : 2}
        dash={dash}
        arrow={dash ? undefined : strong ? 15 : 9}
      />
      <text
        class="strong an-needle halo"
        dy="0.35em"
        text-anchor="middle"
        fill={colour}
        style={{ transform: `${strong ? BESIDE : BEYOND} rotate(${angle}deg)` }}
      >
        {name}
      </text>
    </g>
  );
}
