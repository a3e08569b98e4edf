// How the page comes by its kernels.

import { compile } from 'addnorm/compile';
import { Kernels } from './kernels';

export async function loadKernels(): Promise<Kernels> {
  return new Kernels(await compile());
}
