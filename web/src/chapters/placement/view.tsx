import { useMemo } from 'preact/hooks';
import { kernels } from '../../kernels/current';
import { t, Trans } from '../../language/text';
import { Advanced } from '../../ui/advanced';
import { ChapterLink } from '../../ui/controls';
import { Everything } from '../../ui/route';
import type { Placement } from '../../kernels/kernels';
import { Curves } from './curves';
import { DepthGuess } from './depth-guess';
import { Price } from './price';
import { Switchboard } from './switchboard';
import { Train } from './train';
import './style.css';

export function PlacementChapter() {
  const table = useMemo(() => kernels.placements(), []);
  return (
    <>
      <p>
        <Trans>
          <ChapterLink to="highway">Residual and norm belong together</ChapterLink>, but in which
          order? The Transformer of 2017 normalizes after the sum (post-norm). GPT-2 and most models
          since normalize the sublayer’s input (pre-norm); Xiong et al. 2020 compare the two. Others
          do both, or scale one of the two paths. One formula with five slots describes all of them.
        </Trans>
      </p>
      <h3>{t`Five slots`}</h3>
      <p>
        <Trans>
          Choose a placement by its name, or turn the switches yourself (under Advanced). Click a
          slot of the diagram to add or remove its norm.
        </Trans>
      </p>
      <Switchboard table={table} />
      <h3>{t`Before training`}</h3>
      <p>
        <Trans>
          A decoder of such layers with its initial weights processes a batch of text, forward and
          backward. In post-norm every sum goes through a norm: the stream keeps its size, and on
          its way back the gradient is divided by the σ of each norm. In pre-norm every branch adds
          to the stream, and the gradient has a path past all norms but the last.
        </Trans>
      </p>
      <p>
        <Trans>
          Guess, and see the answer in the curves. Then break a stack: without a norm nothing limits
          the stream, and with large initial weights, such as Xavier’s, stream and gradient explode.
          Repair it with one norm, and compare.
        </Trans>
      </p>
      <DepthGuess table={table} />
      <Curves table={table} />
      <Everything>
        <PriceAndTraining table={table} />
      </Everything>
    </>
  );
}

function PriceAndTraining({ table }: { table: Placement[] }) {
  return (
    <>
      <Advanced heading title={t`The price of pre-norm`}>
        <p>
          <Trans>
            Each branch of a pre-norm stack starts from a normalized input, so all branch outputs
            have about the same size. Where the stream has grown, such a branch turns it by a
            smaller angle: later layers have less effect. Post-norm brings the stream back to one
            size before each layer. The price depends on the size of the branches relative to the
            stream, and so on the initial weights.
          </Trans>
        </p>
        <Price table={table} />
      </Advanced>
      <h3>{t`Train it here`}</h3>
      <p>
        <Trans>
          With their initial weights both placements let the gradient through. Now let them learn:
          two decoders with the same initial weights predict the next byte of a text. One has the
          full learning rate from the first step on. The other has learning-rate warm-up: its rate
          grows from almost 0.
        </Trans>
      </p>
      <p>
        <Trans>
          The loss is in nats per byte: the mean of −ln p, where p is the model’s probability of the
          byte that actually follows. If all 256 bytes are equally likely, the loss is 5.55 nats; if
          p is always ½, it is 0.69. A model that has learned only how often each byte occurs
          reaches the dashed line.
        </Trans>
      </p>
      <Train table={table} />
      <details>
        <summary>{t`Why post-norm stalls, though its gradient arrives at first`}</summary>
        <p>
          <Trans>
            Adam divides a gradient by its own size. So its first steps move every weight by about
            the learning rate, however small or uncertain the gradient is. Liu et al. 2020 find that
            post-norm does not tolerate such steps. Every layer’s branch has a large effect on the
            output, so steps in all layers at once change the output too much. In pre-norm the
            larger stream outweighs them.
          </Trans>
        </p>
        <p>
          <Trans>
            Train post and watch the second chart. Within a few such steps the tokens become nearly
            the same, and less and less of the gradient reaches layer 0: the path that was open at
            the start closes. The model can then only learn how often each byte occurs. With
            PyTorch’s initial weights warm-up keeps the path open, as its first steps are small.
            Then train pre, where the gradient has a path past the norms at every step.
          </Trans>
        </p>
      </details>
      <p class="hint">
        <Trans>
          Each run has its own thread and uses d_model 32, 2 heads, d_ff 128, context 32, 8 windows
          a step and AdamW. A stack counts as trained if its loss is more than 0.1 below that of
          byte frequencies. Two losses count as different if they differ by more than 0.1. One seed
          is one sample: try another.
        </Trans>
      </p>
    </>
  );
}
