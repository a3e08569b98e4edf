// One sublayer: lanes are carried, read by F and written by F. A path's width shows its number.

import type { LaneNumbers, LaneRow } from '../../kernels/lanes';
import { plural, t } from '../../language/text';
import { Figure } from '../../ui/figure';
import { type Box, Label, Line, type Point } from '../../ui/marks';
import { alignedNumbers, exactNumber, fixedNumber, roundNumber } from '../../ui/numbers';
import { textWidth } from '../../ui/text-width';
import { largest } from '../../ui/vectors';
import { tint } from '../../ui/tint';
import { FEATURES, type Step } from './numbers';

interface StepFigureProps {
  title: string;
  numbers: LaneNumbers;
  row: LaneRow | undefined; // undefined for own numbers
  step: Step;
}

export function StepFigure(props: StepFigureProps) {
  const { title, numbers, step } = props;
  return (
    <Figure
      name={t`${title}: ${laneCount(numbers.lanes)}, read, carried and written. The table that follows has the numbers.`}
      title={title}
      width={1100}
      height={(width) => layoutOf(width, numbers).height}
      draw={(width) => <Drawing {...props} layout={layoutOf(width, numbers)} />}
      caption={t`${title}: the lanes of a token`}
      rows={[
        ...step.x.map((values, i) => ({ name: t`X, lane ${i + 1}`, id: `x-${i + 1}`, values })),
        { name: t`z, what F reads`, id: 'z', values: step.z },
        { name: t`f, what F computes`, id: 'f', values: step.f },
        ...step.next.map((values, i) => ({
          name: t`X′, lane ${i + 1}`,
          id: `next-${i + 1}`,
          values,
        })),
      ]}
    />
  );
}

export function laneCount(lanes: number): string {
  return plural(lanes, '{n} lane', '{n} lanes');
}

const TITLE = 34;
const WIDE = 640;

interface Layout {
  height: number;
  before: Box[]; // the lanes of X
  after: Box[];
  z: Box;
  f: Box;
  sublayer: Box;
}

function layoutOf(width: number, { lanes, lanesAfter }: LaneNumbers): Layout {
  const isWide = width >= WIDE;
  const cell = isWide ? 44 : width < 480 ? 32 : 40;
  const strip = { width: FEATURES * cell, height: isWide ? 30 : 26 };
  const [label, end] = isWide ? [56, 56] : [16, 2];
  const pitch = isWide ? 54 : 50;
  const column = (x: number, count: number) =>
    Array.from({ length: count }, (_, i) => ({ ...strip, x, y: TITLE + i * pitch }));
  const left = label;
  const right = width - strip.width - end;
  const floor = TITLE + Math.max(lanes, lanesAfter) * pitch + (isWide ? 62 : 48);
  const room = right - left - strip.width; // between z and f, if these were below the lanes
  const inset = Math.max(0, Math.min(190, 0.25 * room, (room - 84) / 2));
  const z = { ...strip, x: left + inset, y: floor };
  const f = { ...strip, x: right - inset, y: floor };
  const between = f.x - z.x - z.width;
  const sublayerWidth = Math.max(20, Math.min(120, 0.6 * between));
  const sublayer = {
    x: z.x + z.width + (between - sublayerWidth) / 2,
    y: floor - 8,
    width: sublayerWidth,
    height: strip.height + 16,
  };
  return {
    height: floor + strip.height + 48,
    before: column(left, lanes),
    after: column(right, lanesAfter),
    z,
    f,
    sublayer,
  };
}

const middle = ({ y, height }: Box) => y + height / 2;
const centre = (box: Box): Point => [box.x + box.width / 2, middle(box)];

function Drawing({ numbers, row, step, layout }: StepFigureProps & { layout: Layout }) {
  const { before, after, z, f, sublayer } = layout;
  const most = Math.max(largest([...step.x, ...step.next, step.z, step.f].flat()), 1e-9);
  const strips = [...before, z, f, ...after];
  const values = [...step.x, step.z, step.f, ...step.next];
  const texts = textsIn(z.width / FEATURES, values.flat());
  const textsOf = (from: number) => texts.slice(from * FEATURES, (from + 1) * FEATURES);
  return (
    <>
      <Paths numbers={numbers} layout={layout} />
      {strips.map((box, i) => (
        <Strip key={i} box={box} values={values[i]} texts={textsOf(i)} most={most} />
      ))}
      <Names layout={layout} />
      <g class="lanes-sublayer">
        <rect {...sublayer} rx={8} />
        <Label at={centre(sublayer)} class="strong">
          F
        </Label>
      </g>
      <Flow from={z} to={sublayer} />
      <Flow from={sublayer} to={f} />
      <Norms row={row} layout={layout} />
    </>
  );
}

/** The values as texts, with one decimal if there is no room for more. */
function textsIn(width: number, values: number[]): string[] {
  const texts = alignedNumbers(values);
  const fit = Math.max(...texts.map((text) => textWidth(text))) < width - 2;
  return fit ? texts : values.map((v) => fixedNumber(v, 1));
}

function Strip(props: { box: Box; values: number[]; texts: string[]; most: number }) {
  const { box, values, texts, most } = props;
  const width = box.width / values.length;
  return (
    <g class="lanes-strip">
      {values.map((v, i) => (
        <g key={i}>
          <rect
            x={box.x + i * width}
            y={box.y}
            width={width}
            height={box.height}
            style={{ fill: tint(v / most) }}
          >
            <title>{exactNumber(v)}</title>
          </rect>
          <Label at={[box.x + (i + 0.5) * width, middle(box)]}>{texts[i]}</Label>
        </g>
      ))}
    </g>
  );
}

function Names({ layout: { before, after, z, f } }: { layout: Layout }) {
  const wide = before[0].x > 40;
  const nameOf = (i: number) => (wide ? t`lane ${i + 1}` : i + 1);
  return (
    <>
      <Label at={[centre(before[0])[0], TITLE / 2]} class="strong" colour="var(--stream)">
        X
      </Label>
      <Label
        at={[after[0].x + after[0].width, TITLE / 2]}
        anchor="end"
        class="strong"
        colour="var(--stream)"
      >
        X′ = A·X + b ⊗ f
      </Label>
      {before.map((box, i) => (
        <Label key={i} at={[box.x - 6, middle(box)]} anchor="end" class="faint">
          {nameOf(i)}
        </Label>
      ))}
      {wide &&
        after.map((box, i) => (
          <Label key={i} at={[box.x + box.width + 6, middle(box)]} anchor="start" class="faint">
            {nameOf(i)}
          </Label>
        ))}
      <Label at={[centre(z)[0], z.y + z.height + 14]} class="strong" colour="var(--branch)">
        z = a·X
      </Label>
      <Label at={[centre(f)[0], f.y + f.height + 14]} class="strong" colour="var(--branch)">
        f = F(z)
      </Label>
    </>
  );
}

/** The arrow between two boxes side by side. */
function Flow({ from, to }: { from: Box; to: Box }) {
  const points: Point[] = [
    [from.x + from.width + 2, middle(from)],
    [to.x - 2, middle(to)],
  ];
  return <Line points={points} colour="var(--branch)" arrow={8} />;
}

/** The labels of the row's norms at their positions. */
function Norms({ row, layout }: { row: LaneRow | undefined; layout: Layout }) {
  const { before, after, sublayer } = layout;
  const last = before.at(-1)!;
  const inF = [
    (row?.before ?? true) && t`norm before F`,
    (row?.inside ?? false) && t`norm after F`,
  ].filter(Boolean);
  return (
    <>
      {inF.map((text, i) => (
        <Label
          key={i}
          at={[centre(sublayer)[0], sublayer.y + sublayer.height + 24 + 15 * i]}
          class="faint"
        >
          {text}
        </Label>
      ))}
      {row?.after && (
        <Label at={[centre(after[0])[0], after[0].y + after[0].height + 9]} class="faint">
          {t`after a norm`}
        </Label>
      )}
      {row?.lastLane && (
        <Label at={[last.x, last.y + last.height + 9]} anchor="start" class="faint">
          {t`norm, when read`}
        </Label>
      )}
    </>
  );
}

const WIDEST = 9;

interface Link {
  from: Point;
  to: Point;
  kind: 'carry' | 'read' | 'write';
  number: number;
  name: string;
}

/** The paths. Small numbers come first, so that large ones are drawn above them. */
function Paths({ numbers, layout }: { numbers: LaneNumbers; layout: Layout }) {
  const links = linksOf(numbers, layout).filter(({ number }) => number !== 0);
  const most = Math.max(1, largest(links.map(({ number }) => number)));
  links.sort((a, b) => Math.abs(a.number) - Math.abs(b.number));
  return links.map(({ number, kind, name, ...ends }) => {
    const part = Math.abs(number) / most;
    const d = curve(kind, ends.from, ends.to);
    return (
      <g key={name} class={`lanes-path ${kind}`}>
        <path
          d={d}
          stroke-width={Math.max(0.75, WIDEST * part)}
          stroke-dasharray={number < 0 ? '7 5' : undefined}
          style={{ opacity: 0.3 + 0.6 * Math.sqrt(part) }}
        >
          <title>{`${name}: ${roundNumber(number)}`}</title>
        </path>
        <path class="lanes-flow" d={d} style={{ opacity: Math.sqrt(part) }} />
      </g>
    );
  });
}

function linksOf(numbers: LaneNumbers, { before, after, z, f }: Layout): Link[] {
  const { lanes } = numbers;
  const out = (box: Box): Point => [box.x + box.width + 3, middle(box)];
  const into = (box: Box): Point => [box.x - 3, middle(box)];
  return [
    ...numbers.carry.map((number, k) => {
      const [i, j] = [Math.floor(k / lanes), k % lanes];
      const name = t`A, from lane ${j + 1} into lane ${i + 1}`;
      return { from: out(before[j]), to: into(after[i]), kind: 'carry' as const, number, name };
    }),
    ...numbers.read.map((number, j) => {
      const to: Point = [z.x + z.width - 12, z.y - 3];
      return {
        from: out(before[j]),
        to,
        kind: 'read' as const,
        number,
        name: t`a, of lane ${j + 1}`,
      };
    }),
    ...numbers.write.map((number, i) => {
      const from: Point = [f.x + 12, f.y - 3];
      const name = t`b, into lane ${i + 1}`;
      return { from, to: into(after[i]), kind: 'write' as const, number, name };
    }),
  ];
}

function curve(kind: Link['kind'], [x0, y0]: Point, [x1, y1]: Point): string {
  const reach = kind === 'carry' ? 0.45 * (x1 - x0) : 0.8 * Math.max(20, Math.abs(x1 - x0));
  if (kind === 'read') return `M${x0} ${y0}C${x0 + reach} ${y0} ${x1} ${y1 - 60} ${x1} ${y1}`;
  if (kind === 'write') return `M${x0} ${y0}C${x0} ${y0 - 60} ${x1 - reach} ${y1} ${x1} ${y1}`;
  return `M${x0} ${y0}C${x0 + reach} ${y0} ${x1 - reach} ${y1} ${x1} ${y1}`;
}
