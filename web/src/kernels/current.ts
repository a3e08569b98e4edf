// The page's kernels: set once, before the first chapter is shown.

import type { Kernels } from './kernels';

export let kernels: Kernels;

export function setKernels(loaded: Kernels): void {
  kernels = loaded;
}
