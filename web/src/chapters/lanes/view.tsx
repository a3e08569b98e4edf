// The chapter on streams of several lanes: two by hand, one arrangement, then all.

import { t, Trans } from '../../language/text';
import { Advanced } from '../../ui/advanced';
import { ChapterLink } from '../../ui/controls';
import { AnyArrangement } from './any';
import { ByHand } from './by-hand';
import { CarriedLanes } from './carried';
import { Mixing } from './mixing';
import { Models } from './models';
import { startingNumbers, rowOf, step } from './numbers';
import { ROWS } from './rows';
import { state } from './state';
import { StepFigure } from './step-figure';
import { Trap } from './trap';
import { numbersWords } from './words';
import './style.css';

export function LanesChapter() {
  return (
    <>
      <Reason />
      <h3>{t`Two lanes by hand`}</h3>
      <p>
        <Trans>
          Each lane has a row of numbers for a token. Set how much the sublayer F reads from lane 2,
          how much of its result it writes there, and how much the lanes are mixed on their way past
          F. The width of a path shows its number.
        </Trans>
      </p>
      <ByHand />
      <h3>{t`One arrangement: mHC`}</h3>
      <OneArrangement />
      <h3>{t`Models with several lanes`}</h3>
      <Models />
      <AdvancedParts />
      <p class="hint">
        <Trans>
          The library computes the numbers of the arrangements (at the start of training), M and the
          products of A. <ChapterLink to="lab">The lab</ChapterLink> compares M and the products
          with measured streams (depth-mixing, lanes, composite-gain). The results in the table, and
          the gains of mHC’s test model, come from the papers. The values moved follow from the
          formulas or come from the papers.
        </Trans>
      </p>
    </>
  );
}

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
          Several lanes give more room without that cost. Imagine n copies of the stream side by
          side. A sublayer reads a weighted sum of them, a vector of the old width, and computes as
          before. It adds its result to every lane, with a weight for each. The lanes themselves go
          past the sublayer, and may be mixed.
        </Trans>
      </p>
    </>
  );
}

/** mHC with four lanes, before training. */
function OneArrangement() {
  const row = rowOf('mhc');
  const numbers = startingNumbers('mhc');
  return (
    <>
      <p>
        {t`DeepSeek-V4 has four such lanes.`} {ROWS.mhc.words}{' '}
        {t`Below is its first sublayer before training. The numbers say which lane this sublayer reads and writes most.`}
      </p>
      <StepFigure
        title={t`mHC, sublayer 1`}
        numbers={numbers}
        row={row}
        step={step(numbers, row)}
      />
      <ul>
        {numbersWords(numbers).map((words) => (
          <li key={words}>{words}</li>
        ))}
      </ul>
    </>
  );
}

/** The parts for readers who know products of matrices. */
function AdvancedParts() {
  const { row, lanes, read, carry, write, sublayer, lanesAre, values } = state;
  return (
    <>
      <p>
        <Trans>
          The folded parts are for readers who know matrix multiplication. You can skip them and go
          on with <ChapterLink to="axes">which axes a norm averages over</ChapterLink>.
        </Trans>
      </p>
      <Advanced
        heading
        title={t`Any arrangement, number by number`}
        state={[row, lanes, read, carry, write, sublayer, lanesAre, values]}
      >
        <AnyArrangement />
      </Advanced>
      <Advanced
        heading
        title={t`What each sublayer reads in the end`}
        state={[row, state.layers, state.learned, state.reader, state.source]}
      >
        <Mixing />
      </Advanced>
      <Advanced
        heading
        title={t`Do the lanes stay different?`}
        state={[state.guess, state.depth, state.even, state.moved, state.seed]}
      >
        <CarriedLanes />
      </Advanced>
      <Advanced heading title={t`The symmetry trap`} state={[state.differ, state.off]}>
        <SymmetryTrap />
      </Advanced>
    </>
  );
}

function SymmetryTrap() {
  return (
    <>
      <p>
        <Trans>
          All lanes begin as copies of the embedding. If they are read and written with equal
          weights, they stay equal, and A has nothing to learn from. The gradient of one entry of A
          is the dot product of two vectors: the gradient of the lane that it writes to, and the
          lane that it reads from. mHC computes A from learned numbers, its logits, by Sinkhorn’s
          iteration, which alternately divides rows and columns by their sums.
        </Trans>
      </p>
      <Trap />
      <p>
        <Trans>
          Something must break the symmetry. In hyper-connections each sublayer reads a single lane,
          in rotation. mHC also writes more to that lane than to the others. A wide residual writes
          to each lane with a different weight. In your own numbers above, unequal <i>b</i> breaks
          it.
        </Trans>
      </p>
    </>
  );
}
