// The repository's examples, with the reader's choices filled in.

import cpp from '#root/examples/block.cc?raw';
import js from '#root/examples/block.mjs?raw';
import python from '#root/examples/block.py?raw';
import type { BlockNorm, BlockSizes } from './model';
import type { LANGUAGES } from './state';

type Write = (sizes: BlockSizes, placement: BlockNorm, causal: boolean) => string;

export const CODE: Record<(typeof LANGUAGES)[number], Write> = {
  cpp: (sizes, placement, causal) =>
    withSizes(cpp, sizes)
      .replace('find_placement("pre")', `find_placement("${placement}")`)
      .replace('causal = false', `causal = ${causal}`),
  python: (sizes, placement, causal) =>
    withSizes(python, sizes)
      .replace('causal = False', `causal = ${causal ? 'True' : 'False'}`)
      .replace(
        'x + sublayer(norm(x))',
        placement === 'pre' ? 'x + sublayer(norm(x))' : 'norm(x + sublayer(x))',
      ),
  js: (sizes, placement, causal) =>
    withSizes(js, sizes)
      .replace("placement: 'pre'", `placement: '${placement}'`)
      .replace('causal = false', `causal = ${causal}`),
};

function withSizes(code: string, { dModel, heads, dFf }: BlockSizes): string {
  return code
    .replace('d_model = 512', `d_model = ${dModel}`)
    .replace('n_heads = 8', `n_heads = ${heads}`)
    .replace('d_ff = 2048', `d_ff = ${dFf}`);
}
