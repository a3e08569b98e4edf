import { useMemo } from 'preact/hooks';
import { kernels } from '../../kernels/current';
import { ChapterLink } from '../../ui/controls';
import { Curves } from './curves';
import { Price } from './price';
import { Switchboard } from './switchboard';
import { Train } from './train';
import './style.css';

export function PlacementChapter() {
  const table = useMemo(() => kernels.placements(), []);
  return (
    <>
      <p>
        <ChapterLink to="highway">Residual and norm belong together</ChapterLink>, but in which
        order? The Transformer of 2017 normalizes after the sum (post-norm). GPT-2 and most models
        since normalize what the sublayer reads (pre-norm). Others do both, or scale one of the two
        paths. All of them are one formula with five slots: before, inside, after, skip and gain.
      </p>
      <h3>Five slots</h3>
      <p>
        Choose a placement by its name, or turn the switches yourself. A click into the diagram puts
        a norm into a slot or takes it out.
      </p>
      <Switchboard table={table} />
      <h3>Before training</h3>
      <p>
        A decoder of such layers with its first weights processes a batch of text, forward and
        backward. In post-norm every sum goes through a norm: the stream keeps its size, and the
        gradient meets each of these norms on its way back. In pre-norm nothing stands on the
        stream: every branch adds to it, so it grows, and the gradient passes unchanged.
      </p>
      <Curves table={table} />
      <h3>The price of pre-norm</h3>
      <p>
        Each branch of a pre-norm stack starts from a normalized input, so its output has about one
        size. The stream that it is added to grows from layer to layer. So a later layer turns the
        stream by a smaller angle than an earlier one, and has less say. In post-norm the stream is
        brought back to one size before each layer, and every layer has the same say. The larger the
        branches, the higher the price: compare Xavier’s first weights.
      </p>
      <Price />
      <h3>Train it here</h3>
      <p>
        It is not enough that signal and gradient arrive: a post-norm stack of twelve layers passes
        its gradient and still stalls. Adam divides a gradient by its own size, so its first steps
        move every weight by about the learning rate, however small or uncertain the gradient is.
        Liu et al. 2020 find that this is what post-norm does not bear: every layer’s branch has its
        full say in the output, so steps in all layers at once change the output too much; in
        pre-norm the larger stream outweighs them. Warm-up begins with small steps.
      </p>
      <p>
        Two decoders with the same first weights learn to predict the next byte of a text: one at
        the full learning rate from the first step on, one with warm-up, where the rate grows from
        almost nothing. Train post first, then pre, and compare.
      </p>
      <p>
        The loss is in nats a byte: the mean of −ln p, where p is the probability that the model
        gave to the byte that came. If all 256 bytes are held equally likely, the loss is 5.55 nats;
        with p = ½ every time it is 0.69. A model that has learned only how often each byte occurs
        gets to the dashed line.
      </p>
      <Train table={table} />
      <p class="hint">
        d_model 32, 2 heads, d_ff 128, context 32, 8 windows a step, AdamW; each run has a thread of
        its own. A loss 0.1 below byte frequencies counts as trained, and a difference of 0.1 as a
        difference. One seed is one sample: try another.
      </p>
    </>
  );
}
