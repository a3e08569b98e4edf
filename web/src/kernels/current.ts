// The page's kernels: loaded once; the link is read and chapters are shown after that.

import { compile } from 'addnorm/compile';
import { Kernels } from './kernels';

export let kernels: Kernels;

let loading: Promise<Kernels> | undefined;

export function loadKernels(): Promise<Kernels> {
  return (loading ??= compile().then((module) => new Kernels(module)));
}

export function setKernels(loaded: Kernels): void {
  kernels = loaded;
}
