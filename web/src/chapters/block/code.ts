// The repository's examples, with the reader's choices filled in.

import cpp from '#root/examples/block.cc?raw';
import js from '#root/examples/block.mjs?raw';
import python from '#root/examples/block.py?raw';
import type { Activation, BlockNorm, BlockSizes } from './model';
import type { LANGUAGES } from './state';

type Write = (
  sizes: BlockSizes,
  placement: BlockNorm,
  causal: boolean,
  activation: Activation,
) => string;

/** Each language's activation. GPT-2 and GPT-3 use GELU's approximation by tanh. */
const ACTIVATIONS = {
  cpp: { relu: 'kRelu', gelu: 'kGeluTanh' },
  python: {
    relu: 'torch.relu(self.up(x))',
    gelu: 'nn.functional.gelu(self.up(x), approximate="tanh")',
  },
  js: { relu: "'relu'", gelu: "'gelu-tanh'" },
};

export const CODE: Record<(typeof LANGUAGES)[number], Write> = {
  cpp: (sizes, placement, causal, activation) =>
    withSizes(cpp, sizes)
      .replace('find_placement("pre")', `find_placement("${placement}")`)
      .replace('causal = false', `causal = ${causal}`)
      .replace('FeedForwardKind::kRelu', `FeedForwardKind::${ACTIVATIONS.cpp[activation]}`),
  python: (sizes, placement, causal, activation) =>
    withSizes(python, sizes)
      .replace('causal = False', `causal = ${causal ? 'True' : 'False'}`)
      .replace(ACTIVATIONS.python.relu, ACTIVATIONS.python[activation])
      .replace(
        'x + sublayer(norm(x))',
        placement === 'pre' ? 'x + sublayer(norm(x))' : 'norm(x + sublayer(x))',
      ),
  js: (sizes, placement, causal, activation) =>
    withSizes(js, sizes)
      .replace("placement: 'pre'", `placement: '${placement}'`)
      .replace('causal = false', `causal = ${causal}`)
      .replace("feedForward: 'relu'", `feedForward: ${ACTIVATIONS.js[activation]}`),
};

function withSizes(code: string, { dModel, heads, dFf }: BlockSizes): string {
  return code
    .replace('d_model = 512', `d_model = ${dModel}`)
    .replace('n_heads = 8', `n_heads = ${heads}`)
    .replace('d_ff = 2048', `d_ff = ${dFf}`);
}
