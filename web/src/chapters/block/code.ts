// The examples of the repository, with the reader's sizes filled in.

import cpp from '#root/examples/block.cc?raw';
import python from '#root/examples/block.py?raw';
import type { BlockNorm, BlockSizes } from './model';

export function cppCode(sizes: BlockSizes, placement: BlockNorm): string {
  return withSizes(cpp, sizes).replace('find_placement("pre")', `find_placement("${placement}")`);
}

export function pythonCode(sizes: BlockSizes, placement: BlockNorm): string {
  const code = withSizes(python, sizes);
  return placement === 'pre'
    ? code
    : code.replace('x + sublayer(norm(x))', 'norm(x + sublayer(x))');
}

function withSizes(code: string, { dModel, heads, dFf }: BlockSizes): string {
  return code
    .replace('d_model = 512', `d_model = ${dModel}`)
    .replace('n_heads = 8', `n_heads = ${heads}`)
    .replace('d_ff = 2048', `d_ff = ${dFf}`);
}
