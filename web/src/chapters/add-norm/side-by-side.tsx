// One token through the same sublayer in three arrangements: no residual, post-norm and pre-norm.

import { t } from '../../language/text';
import { BarHandles } from '../../ui/bar-handles';
import { type BarChart, Bars } from '../../ui/bars';
import { Figure } from '../../ui/figure';
import { type Box, Label, Line, type Point } from '../../ui/marks';
import { roundNumber } from '../../ui/numbers';
import { DataTable, Rounded } from '../../ui/table';
import { largest, withoutNoise } from '../../ui/vectors';
import { normalizeToken } from '../../kernels/token';
import {
  ARRANGEMENTS,
  type Arrangement,
  distance,
  other,
  type Passage,
  passages,
} from './passages';
import {
  AIR,
  chartIn,
  type Column,
  columnsOf,
  HEIGHT,
  inputChart,
  ROWS,
  SLOT,
} from './side-by-side-layout';
import { Plus } from './stage-a';
import { PLUS } from './stage-a-layout';
import { LIMIT, state } from './state';

const WIDTH = 860;
/** The range of the charts. With x within ±1, nearly all sums fit. */
const RANGE = 2.5;

const NAMES: Record<Arrangement, string> = {
  plain: t`no residual`,
  post: t`post-norm`,
  pre: t`pre-norm`,
};
const FORMULAS: Record<Arrangement, string> = {
  plain: 'F(x)',
  post: 'LN(x + F(x))',
  pre: 'x + F(LN(x))',
};
/** The colour of the output: a branch, a normalized vector, or a sum. */
const COLOURS: Record<Arrangement, string> = {
  plain: 'var(--branch)',
  post: 'var(--normalized)',
  pre: 'var(--sum)',
};

interface Pair {
  arrangement: Arrangement;
  of: Passage; // for x
  ofOther: Passage; // for x′
}

export function SideBySide() {
  const x = state.x.value;
  const x2 = other(x);
  const [of, ofOther] = [passages(x), passages(x2)];
  const pairs = ARRANGEMENTS.map((arrangement) => ({
    arrangement,
    of: of[arrangement],
    ofOther: ofOther[arrangement],
  }));
  return (
    <div class="an-arrangements">
      <Figure
        name={t`The same x passes through the same sublayer F in three arrangements: without a
          residual, in post-norm and in pre-norm. Bars show x, the output of F and the result;
          outlines show the same for x′. The table that follows has the numbers.`}
        width={WIDTH}
        height={HEIGHT}
        draw={(width) => <Drawing width={width} x={x} x2={x2} pairs={pairs} />}
        handles={(width) => (
          <BarHandles
            chart={{ box: inputChart(width), values: x, range: RANGE }}
            item={state.x}
            name={t`the token’s x`}
            limit={LIMIT}
            step={0.05}
          />
        )}
        caption={t`Three arrangements of one sublayer`}
        rows={[
          { name: 'x', id: 'token', values: x },
          { name: 'x′', id: 'token-2', values: x2 },
          ...pairs.flatMap(({ arrangement, of, ofOther }) => {
            const name = NAMES[arrangement];
            return [
              { name: t`${name}: F’s input`, id: `${arrangement}-reads`, values: of.reads },
              { name: t`${name}: F’s output`, id: `${arrangement}-gives`, values: of.gives },
              { name: t`${name}: result`, id: `${arrangement}-leaves`, values: of.leaves },
              {
                name: t`${name}: result for x′`,
                id: `${arrangement}-leaves-2`,
                values: ofOther.leaves,
              },
            ];
          }),
        ]}
      />
      <Numbers apart={distance(x, x2)} pairs={pairs} />
    </div>
  );
}

function Numbers({ apart, pairs }: { apart: number; pairs: Pair[] }) {
  const statistics = pairs.map(({ of }) => normalizeToken({ epsilon: 0 }, of.leaves));
  const means = pairs.map(({ of }, i) => withoutNoise(statistics[i].mean, largest(of.leaves)));
  const row = (id: string, head: string, values: number[]) => ({
    head,
    cells: values.map((value) => <Rounded value={value} />),
    data: { arrangement: id },
  });
  return (
    <div class="an-table">
      <DataTable
        caption={t`Result. x and x′ are ${roundNumber(apart, 3)} apart`}
        visible
        columns={['', ...ARRANGEMENTS.map((a) => NAMES[a])]}
        rows={[
          row(
            'apart',
            t`distance of x and x′`,
            pairs.map(({ of, ofOther }) => distance(of.leaves, ofOther.leaves)),
          ),
          row('mean', t`mean`, means),
          row(
            'deviation',
            t`deviation`,
            statistics.map(({ deviation }) => deviation),
          ),
        ]}
      />
    </div>
  );
}

interface DrawingProps {
  width: number;
  x: readonly number[];
  x2: readonly number[];
  pairs: Pair[];
}

function Drawing({ width, x, x2, pairs }: DrawingProps) {
  const input = inputChart(width);
  const foot: Point = [width / 2, input.y + input.height - AIR];
  return (
    <>
      <Label at={[width / 2, 11]} class="strong" colour="var(--stream)">
        {t`x; outlines: x′`}
      </Label>
      <Both box={input} colour="var(--stream)" values={x} others={x2} />
      <Line points={[foot, [foot[0], ROWS.split]]} colour="var(--stream)" />
      {columnsOf(width, pairs.length).map((column, i) => (
        <Sublayer key={i} foot={foot} column={column} {...pairs[i]} />
      ))}
    </>
  );
}

function Sublayer({
  foot,
  column,
  arrangement,
  of,
  ofOther,
}: Pair & { foot: Point; column: Column }) {
  const { centre, stream } = column;
  const [gives, leaves] = [chartIn(column, ROWS.gives), chartIn(column, ROWS.leaves)];
  const colour = COLOURS[arrangement];
  const hasResidual = arrangement !== 'plain';
  const end = ROWS.gives.y + ROWS.gives.height - AIR; // the end of F's output
  return (
    <>
      <Line
        points={[
          [foot[0], ROWS.split],
          [stream, ROWS.split],
          [stream, ROWS.fork],
        ]}
        colour="var(--stream)"
      />
      <Label at={[stream + 9, ROWS.title]} anchor="start" class="strong">
        {NAMES[arrangement]}
      </Label>
      <Label at={[stream + 9, ROWS.formula]} anchor="start" class="faint">
        {FORMULAS[arrangement]}
      </Label>
      <Line
        points={[
          [stream, ROWS.fork],
          [centre, ROWS.fork],
          [centre, ROWS.gives.y + AIR],
        ]}
        colour="var(--branch)"
      />
      {hasResidual && <Residual {...column} />}
      {arrangement === 'pre' && <Slot at={[centre, ROWS.before]} name={t`Norm`} kind="an-norm" />}
      <Slot at={[centre, ROWS.sublayer]} name="F" kind="an-sublayer" />
      <Both box={gives} colour="var(--branch)" values={of.gives} others={ofOther.gives} />
      <Line
        points={[
          [centre, end],
          [centre, hasResidual ? ROWS.plus - PLUS : ROWS.leaves.y + AIR],
        ]}
        colour="var(--branch)"
        arrow={9}
      />
      {hasResidual && (
        <Line
          points={[
            [centre, ROWS.plus + PLUS],
            [centre, ROWS.leaves.y + AIR],
          ]}
          colour="var(--sum)"
          arrow={9}
        />
      )}
      {arrangement === 'post' && <Slot at={[centre, ROWS.after]} name={t`Norm`} kind="an-norm" />}
      <Both box={leaves} colour={colour} values={of.leaves} others={ofOther.leaves} />
    </>
  );
}

/** The residual path and its sum. */
function Residual({ stream, centre }: Column) {
  return (
    <>
      <circle cx={stream} cy={ROWS.fork} r={3.5} fill="var(--stream)" />
      <Line
        points={[
          [stream, ROWS.fork],
          [stream, ROWS.plus],
          [centre - PLUS, ROWS.plus],
        ]}
        colour="var(--stream)"
        arrow={9}
      />
      <Plus at={[centre, ROWS.plus]} />
    </>
  );
}

interface SlotProps {
  at: Point; // the middle of the upper edge
  name: string;
  kind: 'an-norm' | 'an-sublayer';
}

function Slot({ at: [x, y], name, kind }: SlotProps) {
  const box = { ...SLOT, x: x - SLOT.width / 2, y };
  return (
    <g class={kind}>
      <rect {...box} class="behind" />
      <rect {...box} rx={4} />
      <Label at={[x, y + SLOT.height / 2]}>{name}</Label>
    </g>
  );
}

interface BothProps {
  box: Box;
  colour: string;
  values: readonly number[];
  others: readonly number[];
}

/** The bars of x's vector, overlaid with the outlines of x′'s bars. */
function Both({ box, colour, values, others }: BothProps) {
  const chart: BarChart = { box, colour, values, range: RANGE, labels: false };
  return (
    <>
      <Bars {...chart} zeroLine />
      <Bars {...chart} values={others} ghost colour="var(--text)" />
    </>
  );
}
