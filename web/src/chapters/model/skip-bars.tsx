// The loss when a layer or a sublayer is skipped.

import type { Prediction } from '../../kernels/trained';
import { t } from '../../language/text';
import { linearTicks, YAxis } from '../../ui/axes';
import { Figure } from '../../ui/figure';
import { Across, Label } from '../../ui/marks';
import { exactNumber, fixedNumber } from '../../ui/numbers';
import { DataTable } from '../../ui/table';
import { ATTENTION, columns, EDGE, FEED_FORWARD, LayerNames, Names, partOf } from './plot';
import { sublayerName } from './words';

interface SkipBarsProps {
  whole: Prediction;
  without: readonly Prediction[];
  part: 'layer' | 'sublayer';
  chosen: number; // the layer skipped below; −1: none
}

const HEIGHT = 280;

/** The loss without each layer or sublayer. */
export function SkipBars(props: SkipBarsProps) {
  const { whole, without, part } = props;
  const title = part === 'layer' ? t`Loss without each layer` : t`Loss without each sublayer`;
  return (
    <Figure
      name={t`${title}, in nats per byte. The table that follows has the numbers.`}
      title={title}
      height={HEIGHT}
      draw={(width) => <Plot {...props} width={width} />}
    >
      <DataTable
        caption={t`${title}, in nats per byte`}
        columns={[t`without`, t`loss`, t`increase over the whole network`]}
        rows={[
          { head: t`nothing`, cells: [whole.loss, 0], data: { without: 'nothing' } },
          ...without.map(({ loss }, i) => ({
            head: nameOf(part, i),
            cells: [loss, loss - whole.loss],
            data: { without: nameOf(part, i) },
          })),
        ]}
        format={exactNumber}
      />
    </Figure>
  );
}

function nameOf(part: SkipBarsProps['part'], i: number): string {
  return part === 'layer' ? t`layer ${i}` : sublayerName(i);
}

function Plot({ whole, without, part, chosen, width }: SkipBarsProps & { width: number }) {
  const losses = without.map(({ loss }) => loss);
  const domain: [number, number] = [0, Math.max(whole.loss, ...losses)];
  const plot = columns(losses.length, domain, { width, height: HEIGHT });
  const { box, y, step } = plot;
  const each = part === 'layer' ? 1 : 2;
  const colourOf = (i: number) =>
    part === 'sublayer' ? partOf(i).colour : i === chosen ? 'var(--broken)' : 'var(--series-1)';
  return (
    <>
      <Label at={[box.x + box.width, EDGE + 4]} anchor="end" class="faint">
        {t`nats per byte`}
      </Label>
      <Names names={part === 'layer' ? [] : [ATTENTION, FEED_FORWARD]} />
      <YAxis plot={box} scale={y} ticks={linearTicks(y, 5)} />
      {losses.map((loss, i) => (
        <Bar key={i} {...{ plot, loss, i }} colour={colourOf(i)} name={nameOf(part, i)} />
      ))}
      <Across box={box} y={y(whole.loss)} class="mean" width={1.5} dash="5 4" />
      <LayerNames box={box} step={step} layers={losses.length / each} each={each} />
    </>
  );
}

interface BarProps {
  plot: ReturnType<typeof columns>;
  loss: number;
  i: number;
  colour: string;
  name: string; // the name of the skipped part
}

function Bar({ plot: { y, step, centre }, loss, i, colour, name }: BarProps) {
  const width = Math.min(56, step * 0.72);
  return (
    <g>
      <rect
        class="bar"
        x={centre(i) - width / 2}
        width={width}
        y={y(loss)}
        height={y(0) - y(loss)}
        fill={colour}
      >
        <title>{t`without ${name}: ${exactNumber(loss)}`}</title>
      </rect>
      {step > 26 && (
        <Label at={[centre(i), y(loss) - 9]} class="halo">
          {fixedNumber(loss, 2)}
        </Label>
      )}
    </g>
  );
}
