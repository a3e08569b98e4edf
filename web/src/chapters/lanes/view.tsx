// The chapter on streams of several lanes: read, carry, write.

import { kernels } from '../../kernels/current';
import type { LaneNumbers, LaneRow } from '../../kernels/lanes';
import type { ChoiceField } from '../../state/fields';
import { Button, ChapterLink, Choice, Slider } from '../../ui/controls';
import { Formula } from '../../ui/formula';
import { DataTable } from '../../ui/table';
import { CarriedLanes, MoveAgain } from './carried';
import { Matrices } from './matrices';
import { MixingMap } from './mixing-map';
import { chosenNumbers, hasFreeLanes, moves, rowOf, stackOf, startOver, step } from './numbers';
import { GROUPS, LABELS, ROWS } from './rows';
import { MOST_LANES, state } from './state';
import { laneCount, StepFigure } from './step-figure';
import { Trap } from './trap';
import { lastWords, numbersWords } from './words';
import './style.css';

export function LanesChapter() {
  return (
    <>
      <Reason />
      <h3>Read, carry, write</h3>
      <p>
        X has n lanes for each token. A sublayer reads one vector from them, runs, and writes its
        result back, while a small matrix carries the lanes past it:
      </p>
      <Formula block tex={FORMULA} />
      <p>
        One lane with <i>a</i> = 1, <i>A</i> = skip and <i>b</i> = gain is{' '}
        <ChapterLink to="placement">the formula of one stream</ChapterLink>. Choose an arrangement,
        or set the numbers yourself.
      </p>
      <OneSublayer />
      <h3>What each sublayer reads in the end</h3>
      <Mixing />
      <h3>Do the lanes stay different?</h3>
      <CarriedLanes />
      <h3>The symmetry trap</h3>
      <p>
        All lanes begin as copies of the embedding. If they are read and written alike, they stay
        equal, and then A has nothing to learn from. The gradient of one entry of A is the dot
        product of two vectors: the gradient that comes back to the lane it writes to, and the lane
        it reads from.
      </p>
      <Trap />
      <p>
        Something must break the tie. In hyper-connections sublayers take turns in reading single
        lanes. mHC also writes to one lane more than to the others, in turn, and a wide residual
        writes to each lane with a different weight. In your own numbers above, unequal <i>b</i>{' '}
        does it.
      </p>
      <p class="hint">
        The numbers of the rows, which are those at the start of training, M and the products of A
        come from the library. <ChapterLink to="lab">The lab</ChapterLink> compares M and the
        products with measured streams (depth-mixing, lanes, composite-gain). The results in the
        first table, and the gains of mHC’s large model, come from the papers. The values moved
        follow from the formulas, or come from the papers too.
      </p>
    </>
  );
}

const FORMULA = String.raw`\begin{aligned}
  z &= a \cdot X && \text{read} \\
  f &= F(z) && \text{run, with its norms} \\
  X' &= A \cdot X + b \otimes f && \text{carry and write}
\end{aligned}`;

function Reason() {
  return (
    <>
      <p>
        So far each token has had one stream of d_model numbers, and everything shares it: what
        early layers have found, what late layers need, and the path of the gradient. A wider stream
        would have more room, but it would also enlarge every matrix of every sublayer. Several
        lanes give room without that cost: the stream holds n vectors of the old width, while a
        sublayer still reads one vector and returns one.
      </p>
      <p>
        In 2026 two of the largest open models left the single stream, each in its own direction,
        and a third way came to Megatron-LM:
      </p>
      <div class="lanes-models">
        <DataTable
          caption="What they do, and what it costs"
          visible
          columns={['model', 'its stream', 'values moved / d', 'its paper reports']}
          rows={MODELS.map(([model, ...cells]) => ({ head: model, cells }))}
        />
      </div>
      <p class="hint">
        Values moved: what an Add &amp; Norm reads and writes for each token and sublayer, in one
        pass over memory, in units of the width d.
      </p>
    </>
  );
}

const MODELS = [
  [
    'DeepSeek-V4',
    'mHC: 4 lanes, mixed by doubly stochastic matrices',
    '10 to 14',
    'BBH from 43.8 to 51.0 with 27 billion parameters; 6.7 % more training time',
  ],
  [
    'Kimi K3',
    'Attention Residuals: a lane for each block of layers, at most 9 to read',
    'about 5.5',
    'GPQA from 36.9 to 44.4 with 48 billion parameters; less than 4 % more training time',
  ],
  [
    'Megatron-LM, by NVIDIA and Mistral',
    'wide residual: lanes that are never mixed',
    '10 with 4 lanes',
    'no figures yet',
  ],
  ['Llama, GPT-2 and most others', 'one lane, pre-norm', '4', 'what the others compare with'],
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
        A path is as wide as its number; a dashed one is negative. F is not computed here: f stands
        for whatever it gives.
      </p>
      <div class="controls">
        <Choice
          label="The lanes of X"
          item={state.lanesAre}
          labels={{ different: 'different', alike: 'all alike' }}
        />
        <Button onClick={() => (state.values.value = (state.values.value + 1) % 10_000)}>
          Draw other values
        </Button>
      </div>
    </>
  );
}

function Rows({ row, numbers }: { row: LaneRow | undefined; numbers: LaneNumbers }) {
  return (
    <>
      <div class="controls lanes-rows">
        {GROUPS.map(({ legend, names }) => (
          <Choice key={legend} label={legend} item={state.row} values={names} labels={LABELS} />
        ))}
      </div>
      <p class="lanes-row" role="status">
        <strong>{LABELS[state.row.value]}</strong>
        {row && origin(row, LABELS[state.row.value])}. {ROWS[state.row.value].words}
      </p>
      <div class="controls">
        <LanesChoice row={row} lanes={numbers.lanes} />
        {row && <Slider label="Sublayer" item={state.sublayer} />}
      </div>
      {row && <p class="hint">The numbers are those of a stack of 12 layers.</p>}
    </>
  );
}

function origin({ usedBy, source }: LaneRow, label: string): string {
  const user = usedBy === label || source.startsWith(usedBy) ? '' : `, ${usedBy}`;
  return source && `${user} (${source})`;
}

const PARTS = [
  ['read', 'a', 'reads'],
  ['carry', 'A', 'carries'],
  ['write', 'b', 'writes'],
] as const;

/** How the row makes its numbers. */
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
  if (part === 'write') return '1, into the last lane';
  return formulas.carry === '0' ? 'I' : `I; the new lane: ${formulas.carry}`;
}

const OWN_LANES: ChoiceField<string> = {
  values: Array.from({ length: MOST_LANES }, (_, i) => String(i + 1)),
  initial: '2',
  write: (value) => value,
  read: (text) => text,
};

/** How many lanes: of a row that leaves them free, or of one's own numbers, which then start over. */
function LanesChoice({ row, lanes }: { row: LaneRow | undefined; lanes: number }) {
  if (row && hasFreeLanes(row)) return <Choice label="Lanes" item={state.lanes} />;
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
  return <Choice label="Lanes" item={item} />;
}

function Mixing() {
  const name = state.row.value;
  const choice = { layers: state.layers.value, moved: state.learned.value === 'moved' };
  const mixing = kernels.lanes.mixing(stackOf(name, choice));
  return (
    <>
      <p>
        In a stack of sublayers the small matrices multiply. In the end, what sublayer l reads is a
        weighted sum of the embedding x and of what each earlier sublayer has written:
      </p>
      <Formula block tex={MIXING} />
      <p>
        So every stream has one picture, the depth-mixing matrix M. A row is a sublayer that reads,
        a column is what it reads; a layer has two sublayers. Colours compare within a row, because
        F normalizes what it reads.
      </p>
      <div class="controls">
        <Slider label="Layers" item={state.layers} />
        {moves(name) && (
          <Choice
            label="Learned numbers"
            item={state.learned}
            labels={{ start: 'at the start', moved: 'moved' }}
          />
        )}
        {moves(name) && choice.moved && <MoveAgain />}
      </div>
      <div class="lanes-beside">
        <MixingMap
          mixing={mixing}
          title={`M of ${name === 'own' ? 'your own numbers' : LABELS[name]}`}
        />
        <div>
          <p data-words="last">
            <strong>{LABELS[name]}.</strong> {lastWords(mixing)}
          </p>
          <p>Compare:</p>
          <ul>
            <li>Pre-norm reads everything with the same weight: every entry is 1.</li>
            <li>Post-norm divides the whole sum at every sublayer, so old entries fade.</li>
            <li>
              mHC starts with stripes, because lanes take turns at being read and written most.
            </li>
            <li>
              ResiDual’s lane 1 is post-norm; its exit reads lane 2, which has kept everything.
            </li>
            <li>Attention Residuals start with a mean. For F, behind a norm, that is pre-norm.</li>
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
