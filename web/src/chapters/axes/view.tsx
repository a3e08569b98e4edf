// The chapter “Which axes”: the values that share a mean.

import { KINDS } from 'addnorm';
import { t, Trans } from '../../language/text';
import { assign } from '../../state/store';
import { Button, ChapterLink, Choice, Problem, Slider } from '../../ui/controls';
import { Figure } from '../../ui/figure';
import { GuessCard } from '../../ui/guess';
import { NORM_NAMES } from '../../ui/names';
import { roundNumber } from '../../ui/numbers';
import { DataTable, type VectorRow, VectorTable } from '../../ui/table';
import { Cells, useCell } from './cells';
import { HeatMap } from './heat-map';
import { layoutOf } from './layout';
import { type Batch, behaviourOf, drawBatch, featuresOf, normalize } from './sets';
import { state } from './state';
import './style.css';
import { TwoNorms } from './two-norms';
import {
  aloneWords,
  cellWords,
  dependsWords,
  neighbourWords,
  SETS,
  setWords,
  twinWords,
  USES,
} from './words';

export function Axes() {
  const batch = currentBatch();
  const kind = state.kind.value;
  const [seed, others] = [state.seed.value, state.others.value];
  const x = drawBatch(batch, seed, others);
  const { y } = normalize(kind, batch, x);
  const behaviour = behaviourOf(kind, batch, seed, others);
  return (
    <>
      <p>
        {t`Norms subtract a mean and divide by a deviation. They differ in which cells of a batch
          share one mean. Point at a cell, or focus the figure and use the arrow keys.`}
      </p>
      <TwoNorms batch={batch} x={x} />
      <h3>{t`One norm at a time`}</h3>
      <div class="beside">
        <p>{t`The cells inside the frame are normalized together.`}</p>
        <Controls />
        <HeatMaps batch={batch} x={x} />
        <ul>
          <li>{neighbourWords(behaviour)}</li>
          {[setWords(kind, behaviour, y), twinWords(kind, batch, x, y)]
            .filter(Boolean)
            .map((words) => (
              <li key={words}>{words}</li>
            ))}
        </ul>
        <BatchOfOne batch={batch} />
      </div>
      <h3>{t`The five norms on this batch`}</h3>
      <Norms batch={batch} />
      <p>
        <Trans>
          Images come as [N, C, H, W]: N samples of C channels, with H × W positions in each. Text
          comes as [batch, tokens, d_model]. In a Transformer a row is a token, and its features are
          the d_model numbers of the residual stream. Sequences differ in length, batches can be
          small, and text is written one token at a time. LayerNorm and RMSNorm use only the token
          itself, so a token’s output does not depend on the other tokens. BatchNorm’s output
          depends on the rest of the batch. After training it uses running averages instead, so it
          then computes something else. The figure shows BatchNorm during training. All five norms
          have γ = 1, β = 0 and ε = 10⁻⁵. <ChapterLink to="step-by-step">Step by step</ChapterLink>{' '}
          has the arithmetic.
        </Trans>
      </p>
    </>
  );
}

/** The batch that the controls describe. The number of groups is reduced
 * until it divides the channels. */
function currentBatch(): Batch {
  const channels = Number(state.channels.value);
  return {
    samples: state.samples.value,
    channels,
    positions: Number(state.positions.value),
    groups: commonDivisor(Number(state.groups.value), channels),
  };
}

function commonDivisor(a: number, b: number): number {
  return b === 0 ? a : commonDivisor(b, a % b);
}

function Controls() {
  const { channels, groups } = currentBatch();
  const fitting = state.groups.field.values.filter((g) => channels % Number(g) === 0);
  const asked = state.groups.value;
  return (
    <>
      <div class="controls">
        <Choice label={t`Norm`} item={state.kind} labels={NORM_NAMES} />
      </div>
      <div class="controls">
        <Slider label={t`Batch size`} item={state.samples} />
        <Choice label={t`Channels`} item={state.channels} />
        <Choice label={t`Positions in each channel`} item={state.positions} />
        {state.kind.value === 'group' && (
          <div>
            <Choice label={t`Groups`} item={state.groups} values={fitting} />
            {Number(asked) !== groups && (
              <Problem
                text={t`${channels} channels cannot be split into ${asked} equal groups, so the
                  figure has ${groups}.`}
              />
            )}
          </div>
        )}
      </div>
      <div class="buttons">
        <Button onClick={() => advance(state.seed)}>{t`Draw new values`}</Button>
        <Button onClick={() => advance(state.others)} disabled={state.samples.value === 1}>
          {t`Draw new values for the other samples`}
        </Button>
      </div>
    </>
  );
}

function advance(seed: typeof state.seed) {
  seed.value = (seed.value + 1) % 10_000;
}

const WIDTH = 1240;

function HeatMaps({ batch, x }: { batch: Batch; x: Float64Array }) {
  const [cell, setPointed] = useCell(batch);
  const kind = state.kind.value;
  const result = normalize(kind, batch, x);
  const name = NORM_NAMES[kind];
  const words = cellWords(kind, batch, x, result, cell);
  const shared = { kind, batch, cell };
  const draw = (width: number) => {
    const [before, after] = layoutOf(width, batch).maps;
    return (
      <>
        <HeatMap {...shared} box={before} title={t`before`} values={x} />
        <HeatMap {...shared} box={after} title={t`after ${name}`} values={result.y} />
      </>
    );
  };
  return (
    <div class="beside-figure">
      <Figure
        name={t`A batch before and after ${name}. The tables that follow have the numbers.`}
        width={WIDTH}
        height={(width) => layoutOf(width, batch).height}
        draw={draw}
        handles={(width) => (
          <Cells {...{ width, batch, cell, words }} label={t`Cell`} point={setPointed} />
        )}
      >
        <VectorTable caption={t`before the norm`} rows={rowsOf('row', batch, x)} />
        <VectorTable caption={t`after ${name}`} rows={rowsOf('output', batch, result.y)} />
      </Figure>
      <p class="axes-words">{words}</p>
    </div>
  );
}

/** The values of each sample as table rows. */
function rowsOf(id: string, batch: Batch, values: Float64Array): VectorRow[] {
  const features = featuresOf(batch);
  return Array.from({ length: batch.samples }, (_, row) => ({
    id: `${id}-${row + 1}`,
    name: t`sample ${row + 1}`,
    values: Array.from(values.subarray(row * features, (row + 1) * features)),
  }));
}

/** A question about a batch of one. The answer sets the figure to that batch. */
function BatchOfOne({ batch }: { batch: Batch }) {
  const one = { ...batch, positions: 1 };
  const { aloneLargest } = behaviourOf('batch', one, state.seed.value, state.others.value);
  return (
    <GuessCard
      question={t`BatchNorm gets a batch of one sample, with one position in each channel. What comes
        out?`}
      answers={{ a: t`The same as from LayerNorm`, b: t`The input, unchanged`, c: t`Zeros` }}
      right="c"
      item={state.guess}
      onAnswer={() => assign(state, { kind: 'batch', samples: 1, positions: '1' })}
      reply={t`The largest output is ${roundNumber(aloneLargest, 3)}. Each channel has only one
        value, which equals its mean. Subtracting the mean leaves 0 for every input. The figure
        above now shows this batch. Text that is written one token at a time comes in such
        batches.`}
    />
  );
}

const COLUMNS = [
  t`norm`,
  t`cells that share a mean`,
  t`sets`,
  t`values in each`,
  t`depends on other samples`,
  t`with batch size 1`,
  t`typical use`,
];

function Norms({ batch }: { batch: Batch }) {
  const chosen = state.kind.value;
  const rows = KINDS.map((kind) => {
    const behaviour = behaviourOf(kind, batch, state.seed.value, state.others.value);
    const { sets, setSize } = behaviour;
    return {
      head: NORM_NAMES[kind],
      cells: [
        SETS[kind],
        sets,
        setSize,
        dependsWords(behaviour),
        aloneWords(kind, behaviour),
        USES[kind],
      ],
      class: kind === chosen ? 'chosen' : '',
      data: { norm: kind },
    };
  });
  return (
    <div class="axes-norms">
      <DataTable caption={t`Measured on the values above`} visible columns={COLUMNS} rows={rows} />
    </div>
  );
}
