// The symmetry trap: the gradient of A when all lanes are equal.

import { kernels } from '../../kernels/current';
import { t } from '../../language/text';
import { Choice, Slider } from '../../ui/controls';
import { Figure } from '../../ui/figure';
import { type Box, Label } from '../../ui/marks';
import { exactNumber, roundNumber, shortNumber } from '../../ui/numbers';
import { normal } from '../../ui/random';
import { DataTable } from '../../ui/table';
import { largest } from '../../ui/vectors';
import { tint } from '../../ui/tint';
import { state } from './state';

const LANES = 3;
const FEATURES = 4;
const SEED = 5;

/** The gradients for lanes that differ by `state.differ` (0: all equal), and for a dX′
 * that differs from lane to lane. */
function gradients() {
  const draw = normal(SEED);
  const drawn = (count: number) => Float64Array.from({ length: count }, draw);
  const [mean, own, dNext] = [FEATURES, LANES * FEATURES, LANES * FEATURES].map(drawn);
  const x = own.map((v, i) => mean[i % FEATURES] + state.differ.value * v);
  const off = Number(state.off.value);
  const logits = Float64Array.from({ length: LANES * LANES }, (_, k) =>
    k % (LANES + 1) === 0 ? 0 : off,
  );
  return kernels.lanes.gradient(logits, x, dNext);
}

export function Trap() {
  const { carry, ofCarry, ofLogits } = gradients();
  const most = Math.max(largest(ofCarry), largest(ofLogits));
  const maps = [
    { title: 'A', id: 'carry', values: carry, most: 1 },
    { title: t`gradient of A`, id: 'd-carry', values: ofCarry, most },
    { title: t`gradient of A’s logits`, id: 'd-logits', values: ofLogits, most },
  ];
  return (
    <>
      <div class="controls">
        <Slider
          label={t`The lanes differ by`}
          item={state.differ}
          format={(v) => (v === 0 ? t`nothing` : roundNumber(v))}
        />
        <Choice
          label={t`Logits of A outside the diagonal`}
          item={state.off}
          labels={{ '-1': '−1', '-3': '−3', '-8': t`−8, as published` }}
        />
      </div>
      <Figure
        name={t`A, its gradient, and the gradient of its logits. The tables that follow have the numbers.`}
        title={t`What A can learn from: three lanes, one token`}
        width={900}
        height={(width) => layoutOf(width).height}
        draw={(width) =>
          maps.map((map, i) => <Map key={map.id} {...map} box={layoutOf(width).boxes[i]} />)
        }
      >
        {maps.map(({ title, id, values }) => (
          <DataTable
            key={id}
            caption={title}
            columns={[t`into`, ...lanes().map((j) => t`from lane ${j + 1}`)]}
            rows={lanes().map((i) => ({
              head: t`lane ${i + 1}`,
              cells: [...values.subarray(i * LANES, (i + 1) * LANES)],
              data: { vector: `${id}-${i + 1}` },
            }))}
            format={exactNumber}
          />
        ))}
      </Figure>
      <p role="status" data-words="trap">
        {words(largest(ofLogits) / largest(ofCarry))}
      </p>
    </>
  );
}

function lanes(): number[] {
  return Array.from({ length: LANES }, (_, i) => i);
}

function words(part: number): string {
  if (part < 1e-9) {
    return t`All lanes are equal, so each row of the gradient of A has the same number three times:
      A cannot tell from which lane to take more. Sinkhorn keeps the row sums at 1, so the gradient
      of the logits is 0. A learns nothing from these lanes, however long it trains.`;
  }
  const size = t`The largest gradient of a logit is ${roundNumber(part, 2)} of the largest of A.`;
  const rest =
    part < 0.01
      ? t`The lanes differ, but with such logits Sinkhorn passes on hardly any gradient: A learns slowly.`
      : t`The lanes differ, so A can learn.`;
  return `${size} ${rest}`;
}

const TITLE = 26;
const LABELS = 20;
const LEFT = 46; // space for the row names

function layoutOf(width: number): { boxes: Box[]; height: number } {
  const narrow = width < 560;
  const beside = Math.min(66, (width - 3 * LEFT - 16) / (3 * LANES)); // leaves space for names
  const cell = { width: narrow ? 74 : beside, height: narrow ? 30 : 34 };
  const size = { width: LANES * cell.width, height: LANES * cell.height };
  const full = TITLE + LABELS + size.height + 18;
  const gap = narrow ? 0 : (width - LEFT - 3 * size.width) / 2;
  const boxes = lanes().map((i) => ({
    ...size,
    x: narrow ? LEFT : LEFT + i * (size.width + Math.min(gap, 90)),
    y: TITLE + LABELS + (narrow ? i * full : 0),
  }));
  return { boxes, height: narrow ? 3 * full : full };
}

interface MapProps {
  box: Box;
  title: string;
  values: Float64Array;
  most: number;
}

function Map({ box, title, values, most }: MapProps) {
  const [width, height] = [box.width / LANES, box.height / LANES];
  return (
    <>
      <Label at={[box.x, box.y - LABELS - TITLE / 2 + 2]} anchor="start" class="strong">
        {title}
      </Label>
      {lanes().map((i) => (
        <g key={i}>
          <Label at={[box.x + (i + 0.5) * width, box.y - LABELS / 2]} class="faint">
            {t`from ${i + 1}`}
          </Label>
          <Label at={[box.x - 6, box.y + (i + 0.5) * height]} anchor="end" class="faint">
            {t`into ${i + 1}`}
          </Label>
        </g>
      ))}
      {[...values].map((v, k) => {
        const [x, y] = [box.x + (k % LANES) * width, box.y + Math.floor(k / LANES) * height];
        return (
          <g key={k} class="lanes-cell">
            <rect {...{ x, y, width, height }} style={{ fill: tint(Math.min(1, v / most)) }}>
              <title>{exactNumber(v)}</title>
            </rect>
            <Label at={[x + width / 2, y + height / 2]}>
              {Math.abs(v) < 1e-12 ? '0' : shortNumber(v)}
            </Label>
          </g>
        );
      })}
    </>
  );
}
