// The block from top to bottom: the residual stream on the left, the branches to its right.

import { t } from '../../language/text';
import { Label, Line, type Point } from '../../ui/marks';
import { grouped } from '../../ui/numbers';
import { textWidth } from '../../ui/text-width';
import type { Step } from './model';

const TOP = 28; // y of x
const PITCH = 50;
const BOX = 30; // the height of a box
const RADIUS = 12; // the radius of a sum

export function heightOf(halves: readonly Step[][]): number {
  return TOP + halves.flat().length * PITCH + 54;
}

interface Columns {
  skip: number;
  left: number; // the left edge of the boxes
  centre: number;
  right: number;
  words: number;
}

function columnsFor(width: number, steps: Step[]): Columns {
  const [skip, left] = width > 400 ? [24, 52] : [12, 24];
  const longest = Math.max(...steps.map(({ name }) => textWidth(name)));
  const right = left + Math.max(longest + 10, 0.4 * width);
  return { skip, left, centre: (left + right) / 2, right, words: right + 10 };
}

export function BlockDiagram({ width, halves }: { width: number; halves: [Step[], Step[]] }) {
  const columns = columnsFor(width, halves.flat());
  const { centre, words } = columns;
  const middle = TOP + halves[0].length * PITCH;
  const bottom = middle + halves[1].length * PITCH;
  return (
    <>
      <Vector at={[centre, TOP - 10]} name="x" />
      <Label at={[words, TOP - 10]} anchor="start">
        {halves[0].at(-1)!.shape}
      </Label>
      <Half columns={columns} top={TOP} from={TOP} steps={halves[0]} />
      <Vector at={[centre + 14, middle + 25]} name="h" />
      <Half columns={columns} top={middle} from={middle + edge(halves[0])} steps={halves[1]} />
      <Stream
        points={[
          [centre, bottom + edge(halves[1])],
          [centre, bottom + 40],
        ]}
      />
      <Vector at={[centre + 14, bottom + 30]} name="y" />
    </>
  );
}

/** The distance from the centre of the half's last step to its edge. */
function edge(half: Step[]): number {
  return half.at(-1)!.kind === 'sum' ? RADIUS : BOX / 2;
}

function Vector({ at, name }: { at: Point; name: string }) {
  return (
    <Label at={at} class="strong block-vector">
      {name}
    </Label>
  );
}

function Stream({ points }: { points: Point[] }) {
  return <Line points={points} colour="var(--stream)" width={2.5} arrow={9} />;
}

interface HalfProps {
  columns: Columns;
  top: number; // one step above the first one
  from: number; // the start of its lines
  steps: Step[];
}

/** One sublayer: the lines through its steps, and the stream past its branch. */
function Half({ columns, top, from, steps }: HalfProps) {
  const { centre, skip } = columns;
  const yOf = (i: number) => top + (i + 1) * PITCH;
  const sum = steps.findIndex((step) => step.kind === 'sum');
  const split = top + 23;
  return (
    <>
      {steps.map((_, i) => {
        const to = yOf(i) - (i === sum ? RADIUS : BOX / 2);
        const points: Point[] = [
          [centre, i === 0 ? split : yOf(i - 1)],
          [centre, to],
        ];
        // The norm of post-norm is part of the stream.
        if (i > sum) return <Stream key={i} points={points} />;
        return <Line key={i} points={points} colour="var(--branch)" width={2.5} arrow={9} />;
      })}
      <Stream
        points={[
          [centre, from],
          [centre, split],
          [skip, split],
          [skip, yOf(sum)],
          [centre - RADIUS, yOf(sum)],
        ]}
      />
      {steps.map((step, i) => (
        <StepBox key={i} columns={columns} y={yOf(i)} step={step} />
      ))}
    </>
  );
}

function StepBox({ columns, y, step }: { columns: Columns; y: number; step: Step }) {
  const { left, right, centre, words } = columns;
  const { kind, name, shape, parameters } = step;
  return (
    <g class={`block-${kind}`}>
      {kind === 'sum' ? (
        <circle cx={centre} cy={y} r={RADIUS} />
      ) : (
        <rect x={left} y={y - BOX / 2} width={right - left} height={BOX} rx={5} />
      )}
      <Label at={[centre, y]}>{name}</Label>
      <Label at={[words, parameters > 0 ? y - 8 : y]} anchor="start">
        {shape}
      </Label>
      {parameters > 0 && (
        <Label at={[words, y + 8]} anchor="start" class="faint">
          {t`${grouped(parameters)} parameters`}
        </Label>
      )}
    </g>
  );
}
