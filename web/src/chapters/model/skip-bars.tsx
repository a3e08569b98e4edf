// What becomes of the loss where a layer or a sublayer is skipped.

import { linearTicks, YAxis } from '../../ui/axes';
import { Figure } from '../../ui/figure';
import { Across, Label } from '../../ui/marks';
import { exactNumber, fixedNumber } from '../../ui/numbers';
import { DataTable } from '../../ui/table';
import type { Prediction } from '../../kernels/trained';
import { ATTENTION, columns, EDGE, FEED_FORWARD, LayerNames, Names, partOf } from './plot';
import { sublayerName } from './words';

interface SkipBarsProps {
  whole: Prediction;
  without: readonly Prediction[];
  part: 'layer' | 'sublayer';
  chosen: number; // the layer that is skipped below; −1: none
}

const SKIP_HEIGHT = 280;

/** The loss without each layer or sublayer. */
export function SkipBars({ whole, without, part, chosen }: SkipBarsProps) {
  const each = part === 'layer' ? 1 : 2;
  const losses = without.map(({ loss }) => loss);
  const domain: [number, number] = [0, Math.max(whole.loss, ...losses)];
  const names = part === 'layer' ? [] : [ATTENTION, FEED_FORWARD];
  const title = `Loss without each ${part}`;
  const colourOf = (i: number) =>
    part === 'sublayer' ? partOf(i).colour : i === chosen ? 'var(--broken)' : 'var(--series-1)';
  const nameOf = (i: number) => (part === 'layer' ? `layer ${i}` : sublayerName(i));
  return (
    <Figure
      name={`${title}, in nats a byte. The table that follows has the numbers.`}
      title={title}
      height={SKIP_HEIGHT}
      draw={(width) => {
        const plot = columns(without.length, domain, { width, height: SKIP_HEIGHT });
        const { box, y, step, centre } = plot;
        const bar = Math.min(56, step * 0.72);
        const line = y(whole.loss);
        return (
          <>
            <Label at={[box.x + box.width, EDGE + 4]} anchor="end" class="faint">
              nats a byte
            </Label>
            <Names names={names} />
            <YAxis plot={box} scale={y} ticks={linearTicks(y, 5)} />
            {losses.map((loss, i) => (
              <g key={i}>
                <rect
                  class="bar"
                  x={centre(i) - bar / 2}
                  width={bar}
                  y={y(loss)}
                  height={y(0) - y(loss)}
                  fill={colourOf(i)}
                >
                  <title>{`without ${nameOf(i)}: ${exactNumber(loss)}`}</title>
                </rect>
                {step > 26 && (
                  <Label at={[centre(i), y(loss) - 9]} class="halo">
                    {fixedNumber(loss, 2)}
                  </Label>
                )}
              </g>
            ))}
            <Across box={box} y={line} class="mean" width={1.5} dash="5 4" />
            <LayerNames box={box} step={step} layers={without.length / each} each={each} />
          </>
        );
      }}
    >
      <DataTable
        caption={`${title}, in nats a byte`}
        columns={['without', 'loss', 'more than the whole network']}
        rows={[
          { head: 'nothing', cells: [whole.loss, 0], data: { without: 'nothing' } },
          ...losses.map((loss, i) => ({
            head: nameOf(i),
            cells: [loss, loss - whole.loss],
            data: { without: nameOf(i) },
          })),
        ]}
        format={exactNumber}
      />
    </Figure>
  );
}
