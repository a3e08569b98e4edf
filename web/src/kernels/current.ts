// The page's kernels: loaded and set once, before the first chapter is shown.

import { compile } from 'addnorm/compile';
import { Kernels } from './kernels';

export let kernels: Kernels;

export async function loadKernels(): Promise<Kernels> {
  return new Kernels(await compile());
}

export function setKernels(loaded: Kernels): void {
  kernels = loaded;
}
