// Loads and compiles the WebAssembly module, in browsers and in Node.

import { KernelError } from './instance.js';

/** The source of a module: a URL, its bytes, or the module itself. */
export type Source = string | URL | BufferSource | WebAssembly.Module;

/** A module with one function that returns a 128-bit vector. It is valid only if SIMD is supported. */
const SIMD_PROBE = Uint8Array.from([
  0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 10, 1, 8, 0, 65, 0, 253, 15,
  253, 98, 11,
]);

/** Returns the compiled module. Throws a KernelError if it cannot be loaded or compiled. */
export async function compile(
  source: Source = new URL('./addnorm.wasm', import.meta.url),
): Promise<WebAssembly.Module> {
  if (typeof WebAssembly !== 'object' || !WebAssembly.validate(SIMD_PROBE)) {
    throw new KernelError(
      'The kernels need WebAssembly SIMD, which is not there. Chrome and Edge have it from ' +
        'version 91, Firefox from 89, Safari from 16.4, Node.js from 16.4.',
    );
  }
  if (source instanceof WebAssembly.Module) return source;
  const found = typeof source === 'string' || source instanceof URL ? await read(source) : source;
  try {
    return await (isStream(found)
      ? WebAssembly.compileStreaming(found)
      : WebAssembly.compile(found));
  } catch (error) {
    throw new KernelError(`The kernels are no WebAssembly module: ${(error as Error).message}`);
  }
}

interface Node {
  getBuiltinModule?(name: 'node:fs/promises'): { readFile(url: URL): Promise<BufferSource> };
}

/** Whether the module can be compiled while it loads. read() returns a
 * Response only for application/wasm. */
function isStream(found: BufferSource | Response): found is Response {
  return typeof Response === 'function' && found instanceof Response;
}

/** Reads a file or URL. Node's fetch() does not read files. */
async function read(url: string | URL): Promise<BufferSource | Response> {
  const { process } = globalThis as { process?: Node };
  const files = process?.getBuiltinModule?.('node:fs/promises');
  try {
    if (files && String(url).startsWith('file:')) return await files.readFile(new URL(url));
    const response = await fetch(url);
    if (!response.ok) throw new Error(`status ${response.status}`);
    const isTyped = response.headers.get('Content-Type') === 'application/wasm';
    return isTyped ? response : await response.arrayBuffer();
  } catch (error) {
    throw new KernelError(
      `The kernels could not be loaded from ${url}: ${(error as Error).message}`,
    );
  }
}
