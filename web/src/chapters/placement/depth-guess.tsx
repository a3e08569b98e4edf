// The depth that a gradient reaches in post-norm and in pre-norm: a guess, then the measurement.

import type { Placement } from '../../kernels/kernels';
import { Measurer } from '../../kernels/sessions';
import { t } from '../../language/text';
import { endsOf, fateOf } from '../../stacks/verdict';
import { GuessCard } from '../../ui/guess';
import { useNear } from '../../ui/near';
import { roundNumber } from '../../ui/numbers';
import { Wait } from '../../ui/room';
import { chosenStack } from './stack';
import { state } from './state';

/** The number of layers with which the charts begin. */
const LAYERS = state.layers.field.initial;

const measurer = new Measurer();

export function DepthGuess({ table }: { table: Placement[] }) {
  const options = { ...chosenStack().options, layers: LAYERS, initialization: 'torch' } as const;
  const stacks = ['pre', 'post'].map((name) => ({
    arrangement: table.find((row) => row.name === name)!,
    options,
  }));
  const job = { stacks, text: undefined };
  const element = useNear<HTMLDivElement>(job, () => measurer.request(job));
  const gradients = measurer.measured.value?.measurements.map((m) => endsOf(m).gradient);
  return (
    <div ref={element}>
      {gradients ? (
        <Question pre={gradients[0]} post={gradients[1]} />
      ) : (
        <Wait
          height={[230, 130, 130]}
        >{t`Two stacks of ${LAYERS} layers are being measured.`}</Wait>
      )}
    </div>
  );
}

const FOUND = {
  pre: t`It arrives in pre-norm alone.`,
  post: t`It arrives in post-norm alone.`,
  both: t`It arrives in both.`,
  neither: t`It arrives in neither.`,
};

/** The question. `pre` and `post` are layer 0's gradient over the last layer's. */
function Question({ pre, post }: { pre: number; post: number }) {
  const arrives = (ratio: number) => fateOf(ratio) === 'arrives';
  const one = arrives(pre) ? 'pre' : arrives(post) ? 'post' : 'neither';
  const right = arrives(pre) && arrives(post) ? 'both' : one;
  const reply = t`With PyTorch’s initial weights layer 0 gets ${roundNumber(pre, 2)} times the last layer’s gradient in pre-norm, and
    ${roundNumber(post, 2)} times in post-norm. In pre-norm the gradient has a path past the norms.
    In post-norm each of ${2 * LAYERS} norms divides it by its σ, but it also takes the paths through
    the branches. These can compensate, so post-norm’s gradient may still
    arrive.`;
  return (
    <GuessCard
      question={t`Post-norm and pre-norm, ${LAYERS} layers each: in which does the gradient arrive (layer 0 gets a tenth to ten times the last layer’s)?`}
      answers={{
        pre: t`in pre-norm alone`,
        post: t`in post-norm alone`,
        both: t`in both`,
        neither: t`in neither`,
      }}
      right={right}
      item={state.deep}
      reply={`${FOUND[right]} ${reply}`}
    />
  );
}
