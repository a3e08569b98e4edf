// The chapter on streams of several lanes: read, carry, write.

import { kernels } from '../../kernels/current';
import type { LaneNumbers, LaneRow } from '../../kernels/lanes';
import { t, Trans, translated } from '../../language/text';
import type { ChoiceField } from '../../state/fields';
import { Button, ChapterLink, Choice, Slider } from '../../ui/controls';
import { Formula } from '../../ui/formula';
import { DataTable } from '../../ui/table';
import { CarriedLanes, MoveAgain } from './carried';
import { Matrices } from './matrices';
import { MixingMap } from './mixing-map';
import { chosenNumbers, hasFreeLanes, moves, rowOf, stackOf, startOver, step } from './numbers';
import { RowList } from './row-list';
import { LABELS, ROWS } from './rows';
import { MOST_LANES, state } from './state';
import { laneCount, StepFigure } from './step-figure';
import { Trap } from './trap';
import { lastWords, numbersWords } from './words';
import './style.css';

export function LanesChapter() {
  return (
    <>
      <Reason />
      <h3>{t`Read, carry, write`}</h3>
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
      <h3>{t`Models with several lanes`}</h3>
      <Models />
      <Advanced />
      <h3>
        <AdvancedMark /> {t`What each sublayer reads in the end`}
      </h3>
      <Mixing />
      <h3>
        <AdvancedMark /> {t`Do the lanes stay different?`}
      </h3>
      <CarriedLanes />
      <h3>
        <AdvancedMark /> {t`The symmetry trap`}
      </h3>
      <p>
        <Trans>
          All lanes begin as copies of the embedding. If they are read and written with equal
          weights, they stay equal, and A has nothing to learn from. The gradient of one entry of A
          is the dot product of two vectors: the gradient of the lane that it writes to, and the
          lane that it reads from. mHC computes A from learned numbers, its logits, by Sinkhorn’s
          iteration, which divides rows and columns by their sums, alternating.
        </Trans>
      </p>
      <Trap />
      <p>
        <Trans>
          Something must break the symmetry. In hyper-connections each sublayer reads a single lane,
          in turn. mHC also writes more to one lane than to the others, in turn. A wide residual
          writes to each lane with a different weight. In your own numbers above, unequal <i>b</i>{' '}
          breaks it.
        </Trans>
      </p>
      <p class="hint">
        <Trans>
          The library computes the numbers of the arrangements (at the start of training), M and the
          products of A. <ChapterLink to="lab">The lab</ChapterLink> compares M and the products
          with measured streams (depth-mixing, lanes, composite-gain). The results in the first
          table, and the gains of mHC’s test model, come from the papers. The values moved follow
          from the formulas or come from the papers.
        </Trans>
      </p>
    </>
  );
}

function AdvancedMark() {
  return <span class="lanes-advanced">{t`Advanced`}</span>;
}

/** The note at the start of the advanced part. */
function Advanced() {
  return (
    <p class="card">
      <Trans>
        <AdvancedMark /> The rest of this chapter is for readers who know products of matrices. It
        shows the combined effect of many sublayers. You can skip it and go on with{' '}
        <ChapterLink to="axes">which axes a norm averages over</ChapterLink>.
      </Trans>
    </p>
  );
}

const FORMULA = String.raw`\begin{aligned}
  z &= a \cdot X && \text{${t`read`}} \\
  f &= F(z) && \text{${t`run, with its norms`}} \\
  X' &= A \cdot X + b \otimes f && \text{${t`carry and write`}}
\end{aligned}`;

function Reason() {
  return (
    <>
      <p>
        <Trans>
          So far each token has had one stream of d_model numbers, and all layers share it. This one
          sum holds the results of early layers, the inputs of late layers and the path of the
          gradient. A wider stream would have more room, but it would also enlarge every matrix of
          every sublayer.
        </Trans>
      </p>
      <p>
        <Trans>
          Several lanes give room without that cost. Imagine n copies of the stream side by side. A
          sublayer reads a weighted sum of them, a vector of the old width, and computes as before.
          It adds its result to every lane, with a weight for each. The lanes themselves go past the
          sublayer, and may be mixed.
        </Trans>
      </p>
    </>
  );
}

function Models() {
  return (
    <>
      <p>
        <Trans>
          In 2026 two of the largest open models replaced the single stream, each in its own way.
          Megatron-LM added a third way. The papers measured the gain on smaller test models, with
          and without the new stream:
        </Trans>
      </p>
      <div class="lanes-models">
        <DataTable
          caption={t`What each model does, and what it costs`}
          visible
          columns={[t`model`, t`its stream`, t`values moved / d`, t`its paper’s test model`]}
          rows={MODELS.map(([source, model, ...cells]) => ({
            head: source ? <a href={source}>{model}</a> : model,
            cells,
          }))}
        />
      </div>
      <p class="hint">
        {t`Values moved: what an Add & Norm reads and writes for each token and sublayer, in one
          pass over memory, in units of the width d. BBH is a collection of reasoning tasks, GPQA of
          questions in science; both give percent of right answers.`}
      </p>
    </>
  );
}

const MODELS = [
  [
    'https://arxiv.org/abs/2606.19348',
    'DeepSeek-V4',
    t`mHC: 4 lanes, mixed by averages that cannot amplify`,
    t`10 to 14`,
    t`27 billion parameters: BBH from 43.8 to 51.0; 6.7 % more training time`,
  ],
  [
    'https://arxiv.org/abs/2603.15031',
    'Kimi K3',
    t`Attention Residuals: a lane for each block of layers, at most 9 to read`,
    t`about 5.5`,
    t`48 billion parameters: GPQA from 36.9 to 44.4; less than 4 % more training time`,
  ],
  [
    'https://github.com/NVIDIA/Megatron-LM/pull/6716',
    t`Megatron-LM, by NVIDIA and Mistral`,
    t`wide residual: lanes that are never mixed`,
    t`10 with 4 lanes`,
    t`none published yet`,
  ],
  ['', t`Llama, GPT-2 and most others`, t`one lane, pre-norm`, '4', t`the baseline of the others`],
];

function OneSublayer() {
  const name = state.row.value;
  const row = rowOf(name);
  const numbers = chosenNumbers();
  return (
    <>
      <Rows row={row} numbers={numbers} />
      <div class="lanes-step">
        <div>
          <StepFigure numbers={numbers} row={row} step={step(numbers, row)} />
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

function Mixing() {
  const name = state.row.value;
  const choice = { layers: state.layers.value, moved: state.learned.value === 'moved' };
  const mixing = kernels.lanes.mixing(stackOf(name, choice));
  return (
    <>
      <p>
        <Trans>
          In a stack of sublayers the small matrices multiply. In the end, what sublayer l reads is
          a weighted sum of the embedding x and of what each earlier sublayer has written:
        </Trans>
      </p>
      <Formula block tex={MIXING} />
      <p>
        <Trans>
          So the depth-mixing matrix M describes every stream. Each row is a sublayer, and the
          columns are what it reads. A layer has two sublayers. Compare colours only within a row,
          because F normalizes its input.
        </Trans>
      </p>
      <p>
        <Trans>
          A norm in the stream is not a matrix: its divisor differs from token to token. M has one
          factor in its place: the divisor for an x and f’s that are uncorrelated and of equal size.
          In post-norm this is √2 at every sublayer.
        </Trans>
      </p>
      <div class="controls">
        <RowList />
        <Slider label={t`Layers`} item={state.layers} />
        {moves(name) && (
          <Choice
            label={t`Learned numbers`}
            item={state.learned}
            labels={{ start: t`at the start`, moved: t`changed` }}
          />
        )}
        {moves(name) && choice.moved && <MoveAgain />}
      </div>
      <div class="lanes-beside">
        <MixingMap
          mixing={mixing}
          title={t`M of ${name === 'own' ? t`your own numbers` : LABELS[name]}`}
        />
        <div>
          <p data-words="last">
            <strong>{LABELS[name]}.</strong> {lastWords(mixing)}
          </p>
          <p>{t`Compare:`}</p>
          <ul>
            <li>{t`Pre-norm reads everything with the same weight: every entry is 1.`}</li>
            <li>
              <Trans>
                Post-norm divides the whole sum at every sublayer, by √2 here, so older entries
                become smaller.
              </Trans>
            </li>
            <li>
              <Trans>
                mHC starts with stripes, because each sublayer reads and writes one lane most, in
                turn.
              </Trans>
            </li>
            <li>
              <Trans>
                ResiDual’s lane 1 is post-norm; its exit reads lane 2, which has kept everything.
              </Trans>
            </li>
            <li>
              <Trans>
                Attention Residuals start with a mean. F reads through a norm, so for F this is the
                same as pre-norm.
              </Trans>
            </li>
          </ul>
        </div>
      </div>
    </>
  );
}

const MIXING = String.raw`\begin{aligned}
  z_l &= M_{lx}\,x + \sum_{j<l} M_{lj}\,f_j \\
  M_{lj} &= a_l\, A_{l-1} \cdots A_{j+1}\, b_j
\end{aligned}`;
