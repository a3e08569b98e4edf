import { useMemo } from 'preact/hooks';
import { kernels } from '../../kernels/current';
import { t, Trans } from '../../language/text';
import { ChapterLink } from '../../ui/controls';
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
          since normalize what the sublayer reads (pre-norm); Xiong et al. 2020 compare the two.
          Others do both, or scale one of the two paths. All of them are one formula with five
          slots: before, inside, after, skip and gain.
        </Trans>
      </p>
      <h3>{t`Five slots`}</h3>
      <p>
        <Trans>
          Choose a placement by its name, or turn the switches yourself. A click into the diagram
          puts a norm into a slot or takes it out.
        </Trans>
      </p>
      <Switchboard table={table} />
      <h3>{t`Before training`}</h3>
      <p>
        <Trans>
          A decoder of such layers with its first weights processes a batch of text, forward and
          backward. In post-norm every sum goes through a norm: the stream keeps its size, and the
          gradient meets each of these norms on its way back. In pre-norm nothing stands on the
          stream: every branch adds to it, and the gradient has a way past all norms but the last.
        </Trans>
      </p>
      <DepthGuess table={table} />
      <p>
        <Trans>
          Now break a stack. Without a norm each branch adds to a stream that nothing holds: with
          large first weights both stream and gradient explode. Then repair it with one norm, before
          F or after the sum, and compare.
        </Trans>
      </p>
      <Curves table={table} />
      <h3>{t`The price of pre-norm`}</h3>
      <p>
        <Trans>
          Each branch of a pre-norm stack starts from a normalized input, so its output has about
          one size. Where the stream has grown, such a branch turns it by a smaller angle: later
          layers have less say. Post-norm brings the stream back to one size before each layer. How
          high the price is depends on how large branches are beside the stream, and that on the
          first weights.
        </Trans>
      </p>
      <Price table={table} />
      <h3>{t`Train it here`}</h3>
      <p>
        <Trans>
          With their first weights both pass their gradient. Now let them learn: two decoders with
          the same first weights predict the next byte of a text, one at the full learning rate from
          the first step on, one with warm-up, where the rate grows from almost nothing.
        </Trans>
      </p>
      <p>
        <Trans>
          The loss is in nats per byte: the mean of −ln p, where p is the probability that the model
          gave to the byte that came. If all 256 bytes are held equally likely, the loss is 5.55
          nats; with p = ½ every time it is 0.69. A model that has learned only how often each byte
          occurs gets to the dashed line.
        </Trans>
      </p>
      <Train table={table} />
      <details>
        <summary>{t`Why post-norm stalls, though its gradient arrives at first`}</summary>
        <p>
          <Trans>
            Adam divides a gradient by its own size, so its first steps move every weight by about
            the learning rate, however small or uncertain the gradient is. Liu et al. 2020 find that
            this is what post-norm does not bear: every layer’s branch has its full say in the
            output, so steps in all layers at once change the output too much; in pre-norm the
            larger stream outweighs them.
          </Trans>
        </p>
        <p>
          <Trans>
            Train post, and see it happen in the second chart. Within a few such steps the tokens
            become alike, and as they do, less and less of the gradient comes back to layer 0: the
            way that was open at the start closes. What is left to learn is how often each byte
            occurs. With PyTorch’s first weights warm-up keeps the way open, as its first steps are
            small. Then train pre, where the gradient has a way past the norms at every step.
          </Trans>
        </p>
      </details>
      <p class="hint">
        <Trans>
          d_model 32, 2 heads, d_ff 128, context 32, 8 windows a step, AdamW; each run has a thread
          of its own. A loss 0.1 below byte frequencies counts as trained, and a difference of 0.1
          as a difference. One seed is one sample: try another.
        </Trans>
      </p>
    </>
  );
}
