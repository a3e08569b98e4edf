// The page's kernels: loaded once; the link is read and chapters are shown after that.

import { signal } from '@preact/signals';
import { kernelsModule } from './files';
import { Kernels } from './kernels';

export let kernels: Kernels;

/** Whether they are there, and the link has been read: then chapters can be shown. */
export const ready = signal(false);

/** Why the page has none. */
export const failure = signal('');

let loading: Promise<Kernels> | undefined;

export function loadKernels(): Promise<Kernels> {
  return (loading ??= kernelsModule().then((module) => new Kernels(module)));
}

export function setKernels(loaded: Kernels): void {
  kernels = loaded;
}
