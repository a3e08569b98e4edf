// Any arrangement at one sublayer: its numbers, to be changed one by one.

import type { LaneNumbers, LaneRow } from '../../kernels/lanes';
import { t, Trans, translated } from '../../language/text';
import type { ChoiceField } from '../../state/fields';
import { Button, ChapterLink, Choice, Slider } from '../../ui/controls';
import { Formula } from '../../ui/formula';
import { Matrices } from './matrices';
import { hasFreeLanes, rowOf, startingNumbers, startOver, step } from './numbers';
import { RowList } from './row-list';
import { LABELS, ROWS } from './rows';
import { MOST_LANES, state } from './state';
import { laneCount, StepFigure } from './step-figure';
import { numbersWords } from './words';

const FORMULA = String.raw`\begin{aligned}
  z &= a \cdot X && \text{${t`read`}} \\
  f &= F(z) && \text{${t`run, with its norms`}} \\
  X' &= A \cdot X + b \otimes f && \text{${t`carry and write`}}
\end{aligned}`;

export function AnyArrangement() {
  return (
    <>
      <p>
        <Trans>
          X has n lanes for each token. Three small tables of numbers say what a sublayer does with
          them. <i>a</i> says how much it reads of each lane. <i>b</i> says how much of its result
          it writes to each lane. The matrix <i>A</i> says how much of each lane goes on into each
          lane.
        </Trans>
      </p>
      <Formula block tex={FORMULA} />
      <p>
        <Trans>
          One lane with <i>a</i> = 1, <i>A</i> = skip and <i>b</i> = gain is{' '}
          <ChapterLink to="placement">the formula of one stream</ChapterLink>. Change a number and
          watch its path, or choose an arrangement from a paper.
        </Trans>
      </p>
      <OneSublayer />
    </>
  );
}

function OneSublayer() {
  const name = state.row.value;
  const row = rowOf(name);
  const numbers = startingNumbers(name, state.sublayer.value);
  return (
    <>
      <Rows row={row} numbers={numbers} />
      <div class="lanes-step">
        <div>
          <StepFigure
            title={t`One sublayer`}
            numbers={numbers}
            row={row}
            step={step(numbers, row)}
          />
          <Values />
        </div>
        <div>
          <Matrices numbers={numbers} />
          {row && <Formulas row={row} />}
          <ul data-words="numbers">
            {numbersWords(numbers).map((words) => (
              <li key={words}>{words}</li>
            ))}
          </ul>
        </div>
      </div>
    </>
  );
}

function Values() {
  return (
    <>
      <p class="hint">
        <Trans>
          The width of a path shows its number; a dashed path is negative. F is not computed here: f
          stands for any output of F.
        </Trans>
      </p>
      <div class="controls">
        <Choice
          label={t`The lanes of X`}
          item={state.lanesAre}
          labels={{ different: t`different`, alike: t`all equal` }}
        />
        <Button onClick={() => (state.values.value = (state.values.value + 1) % 10_000)}>
          {t`Draw other values`}
        </Button>
      </div>
    </>
  );
}

function Rows({ row, numbers }: { row: LaneRow | undefined; numbers: LaneNumbers }) {
  return (
    <>
      <div class="controls">
        <RowList />
        <LanesChoice row={row} lanes={numbers.lanes} />
        {row && <Slider label={t`Sublayer`} item={state.sublayer} />}
      </div>
      <p class="lanes-row" role="status">
        <strong>{LABELS[state.row.value]}</strong>
        {row && origin(row, LABELS[state.row.value])}. {ROWS[state.row.value].words}
      </p>
      {row && <p class="hint">{t`The numbers are those of a stack of 12 layers.`}</p>}
    </>
  );
}

function origin({ usedBy, source }: LaneRow, label: string): string {
  const user = translated(usedBy);
  const named = user === label || source.startsWith(usedBy) ? '' : `, ${user}`;
  return source && `${named} (${translated(source)})`;
}

const PARTS = [
  ['read', 'a', t`reads`],
  ['carry', 'A', t`carries`],
  ['write', 'b', t`writes`],
] as const;

/** The formulas for the row's numbers. */
function Formulas({ row }: { row: LaneRow }) {
  return (
    <dl class="lanes-formulas">
      {PARTS.map(([part, letter, verb]) => (
        <div key={part}>
          <dt>
            <i>{letter}</i> {verb}
          </dt>
          <dd>{formula(row, part)}</dd>
        </div>
      ))}
    </dl>
  );
}

function formula({ grows, formulas }: LaneRow, part: (typeof PARTS)[number][0]): string {
  if (!grows || part === 'read') return formulas[part];
  if (part === 'write') return t`1, into the last lane`;
  return formulas.carry === '0' ? 'I' : t`I; the new lane: ${formulas.carry}`;
}

const OWN_LANES: ChoiceField<string> = {
  values: Array.from({ length: MOST_LANES }, (_, i) => String(i + 1)),
  initial: '2',
  write: (value) => value,
  read: (text) => text,
};

/** The number of lanes: free in some rows and in own numbers. Changing it resets own numbers. */
function LanesChoice({ row, lanes }: { row: LaneRow | undefined; lanes: number }) {
  if (row && hasFreeLanes(row)) return <Choice label={t`Lanes`} item={state.lanes} />;
  if (row) return <p class="lanes-count">{laneCount(lanes)}</p>;
  const item = {
    field: OWN_LANES,
    problem: state.read.problem,
    get value() {
      return String(lanes);
    },
    set value(wanted: string) {
      startOver(Number(wanted));
    },
  };
  return <Choice label={t`Lanes`} item={item} />;
}
