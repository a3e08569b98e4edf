// How the page comes by the module.

import url from '#module?url';
import { Kernels } from './kernels';

/** A module of one function that returns a 128-bit vector: valid only where there is SIMD. */
const SIMD_PROBE = Uint8Array.from([
  0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 10, 1, 8, 0, 65, 0, 253, 15,
  253, 98, 11,
]);

export function hasSimd(): boolean {
  return typeof WebAssembly === 'object' && WebAssembly.validate(SIMD_PROBE);
}

/** The page's own module; an Error in words where that fails. */
export async function loadKernels(): Promise<Kernels> {
  if (!hasSimd()) {
    throw new Error(
      'This page computes with WebAssembly SIMD, which this browser does not have. ' +
        'Chrome and Edge have it from version 91, Firefox from 89, Safari from 16.4.',
    );
  }
  return new Kernels(await loadModule(url));
}

/** Fetches and compiles a module; an Error in words where that fails. */
export async function loadModule(url: string): Promise<WebAssembly.Module> {
  const response = await fetch(url).catch(() => {
    throw new Error('The kernels could not be loaded; is the server still there?');
  });
  if (!response.ok) throw new Error(`The kernels could not be loaded: ${url}: ${response.status}.`);
  return WebAssembly.compile(await response.arrayBuffer());
}
