// What each norm has learned of γ.

import { linearTicks, YAxis } from '../../ui/axes';
import { Figure } from '../../ui/figure';
import { Across, Line } from '../../ui/marks';
import { exactNumber } from '../../ui/numbers';
import { DataTable } from '../../ui/table';
import { ATTENTION, columns, FEED_FORWARD, FINAL, LayerNames, Names, partOf } from './plot';
import { median, normName } from './words';

const GAMMA_HEIGHT = 300;

/** Every γ as a dot, norm by norm, and each norm's median. */
export function GammaDots({ gammas }: { gammas: readonly Float32Array[] }) {
  const norms = gammas.length;
  const all = gammas.flatMap((gamma) => [...gamma]);
  const domain: [number, number] = [Math.min(1, ...all), Math.max(1, ...all)];
  const lookOf = (norm: number) => (norm === norms - 1 ? FINAL : partOf(norm));
  const title = 'γ of every norm';
  return (
    <Figure
      name={`${title}, a dot for each feature. The table that follows has the least, the median and the largest.`}
      title={title}
      height={GAMMA_HEIGHT}
      draw={(width) => {
        const { box, y, step, centre } = columns(norms, domain, { width, height: GAMMA_HEIGHT });
        const half = Math.min(10, step * 0.42);
        return (
          <>
            <Names names={[ATTENTION, FEED_FORWARD, FINAL]} />
            <YAxis plot={box} scale={y} ticks={linearTicks(y, 6)} />
            <Across box={box} y={y(1)} class="mean" dash="5 4" />
            {gammas.map((gamma, i) => {
              const { colour } = lookOf(i);
              const middle = y(median(gamma));
              return (
                <g key={i}>
                  {Array.from(gamma, (v, f) => (
                    <circle
                      key={f}
                      cx={centre(i)}
                      cy={y(v)}
                      r={3}
                      fill={colour}
                      fill-opacity={0.45}
                    >
                      <title>{`feature ${f}: ${exactNumber(v)}`}</title>
                    </circle>
                  ))}
                  <Line
                    points={[
                      [centre(i) - half, middle],
                      [centre(i) + half, middle],
                    ]}
                    width={3}
                    colour={colour}
                  />
                </g>
              );
            })}
            <LayerNames box={box} step={step} layers={(norms - 1) / 2} each={2} />
          </>
        );
      }}
    >
      <DataTable
        caption={title}
        columns={['norm', 'least', 'median', 'largest']}
        rows={gammas.map((gamma, i) => ({
          head: normName(i, norms),
          cells: [Math.min(...gamma), median(gamma), Math.max(...gamma)],
          data: { gamma: String(i) },
        }))}
        format={exactNumber}
      />
    </Figure>
  );
}
