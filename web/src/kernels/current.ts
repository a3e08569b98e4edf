// The page's kernels, which are loaded once. The link is read, and chapters are shown, after that.

import { signal } from '@preact/signals';
import { kernelsModule } from './files';
import { Kernels } from './kernels';

export let kernels: Kernels;

/** Whether the kernels are loaded and the link has been read. Chapters can then be shown. */
export const ready = signal(false);

/** The reason why the kernels could not be loaded. */
export const failure = signal('');

let loading: Promise<Kernels> | undefined;

export function loadKernels(): Promise<Kernels> {
  return (loading ??= kernelsModule().then((module) => new Kernels(module)));
}

export function setKernels(loaded: Kernels): void {
  kernels = loaded;
}
