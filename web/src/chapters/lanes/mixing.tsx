// The depth-mixing matrix of the chosen arrangement.

import { kernels } from '../../kernels/current';
import { t, Trans } from '../../language/text';
import { Choice, Slider } from '../../ui/controls';
import { Formula } from '../../ui/formula';
import { MoveAgain } from './carried';
import { MixingMap } from './mixing-map';
import { moves, stackOf } from './numbers';
import { RowList } from './row-list';
import { LABELS } from './rows';
import { state } from './state';
import { lastWords } from './words';

export function Mixing() {
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
          A norm in the stream is not a matrix: its divisor differs from token to token. In its
          place M has one factor: the divisor that results if x and all f are uncorrelated and of
          equal size. In post-norm this is √2 at every sublayer.
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
          <p>
            <Trans>Compare:</Trans>
          </p>
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
                mHC starts with stripes, because each sublayer reads and writes one lane more than
                the others, in rotation.
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
