// The learned γ of each norm.

import { t } from '../../language/text';
import { linearTicks, YAxis } from '../../ui/axes';
import { Figure } from '../../ui/figure';
import { Across, Line } from '../../ui/marks';
import { exactNumber } from '../../ui/numbers';
import { DataTable } from '../../ui/table';
import { ATTENTION, columns, FEED_FORWARD, FINAL, LayerNames, Names, partOf } from './plot';
import { median, normName } from './words';

const HEIGHT = 300;

interface GammaDotsProps {
  gammas: readonly Float32Array[];
}

/** Every γ as a dot, norm by norm, and each norm's median. */
export function GammaDots({ gammas }: GammaDotsProps) {
  const title = t`γ of every norm`;
  return (
    <Figure
      name={t`${title}, a dot for each feature. The table that follows has the least, the median and the largest.`}
      title={title}
      height={HEIGHT}
      draw={(width) => <Plot gammas={gammas} width={width} />}
    >
      <DataTable
        caption={title}
        columns={[t`norm`, t`least`, t`median`, t`largest`]}
        rows={gammas.map((gamma, i) => ({
          head: normName(i, gammas.length),
          cells: [Math.min(...gamma), median(gamma), Math.max(...gamma)],
          data: { gamma: String(i) },
        }))}
        format={exactNumber}
      />
    </Figure>
  );
}

function Plot({ gammas, width }: GammaDotsProps & { width: number }) {
  const norms = gammas.length;
  const all = gammas.flatMap((gamma) => [...gamma]);
  const domain: [number, number] = [Math.min(1, ...all), Math.max(1, ...all)];
  const { box, y, step, centre } = columns(norms, domain, { width, height: HEIGHT });
  return (
    <>
      <Names names={[ATTENTION, FEED_FORWARD, FINAL]} />
      <YAxis plot={box} scale={y} ticks={linearTicks(y, 6)} />
      <Across box={box} y={y(1)} class="mean" dash="5 4" />
      {gammas.map((gamma, i) => {
        const { colour } = i === norms - 1 ? FINAL : partOf(i);
        const half = Math.min(10, step * 0.42);
        return <Norm key={i} {...{ gamma, colour, half, y }} x={centre(i)} />;
      })}
      <LayerNames box={box} step={step} layers={(norms - 1) / 2} each={2} />
    </>
  );
}

interface NormProps {
  gamma: Float32Array;
  colour: string;
  x: number;
  half: number; // half the width of the median
  y(value: number): number;
}

function Norm({ gamma, colour, x, half, y }: NormProps) {
  const middle = y(median(gamma));
  const ends = [[x - half, middle] as const, [x + half, middle] as const];
  return (
    <g>
      {Array.from(gamma, (v, f) => (
        <circle key={f} cx={x} cy={y(v)} r={3} fill={colour} fill-opacity={0.45}>
          <title>{t`feature ${f}: ${exactNumber(v)}`}</title>
        </circle>
      ))}
      <Line points={ends} width={3} colour={colour} />
    </g>
  );
}
