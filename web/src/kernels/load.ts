// Loads the page's kernels.

import { compile } from 'addnorm/compile';
import { Kernels } from './kernels';

export async function loadKernels(): Promise<Kernels> {
  return new Kernels(await compile());
}
