// The native program, for tests that compare the module with it.

import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Values } from './instance';
import { Kernels } from './kernels';
import { Lab } from './lab';

const build = fileURLToPath(new URL('../../../build', import.meta.url));

export async function loadModule(name: 'addnorm' | 'lab'): Promise<WebAssembly.Module> {
  return WebAssembly.compile(readFileSync(`${build}/wasm/bin/${name}.wasm`));
}

export async function loadKernels(): Promise<Kernels> {
  return new Kernels(await loadModule('addnorm'));
}

export async function loadLab(): Promise<Lab> {
  return new Lab(await loadModule('lab'));
}

/** What `addnorm …` prints. */
export function native(...flags: (string | number)[]): string {
  return execFileSync(`${build}/release/bin/addnorm`, flags.map(String), { encoding: 'utf8' });
}

/** Runs `body` with a folder of its own. */
export function withFolder<R>(body: (path: (name: string) => string) => R): R {
  const folder = mkdtempSync(join(tmpdir(), 'addnorm-'));
  try {
    return body((name) => join(folder, name));
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** Writes a NumPy file of this shape, as numpy.save does. */
export function writeNpy(path: string, shape: readonly number[], values: Values): void {
  const descr = values instanceof Float32Array ? '<f4' : '<f8';
  const dims = shape.join(', ') + (shape.length === 1 ? ',' : '');
  const text = `{'descr': '${descr}', 'fortran_order': False, 'shape': (${dims}), }`;
  const header = text.padEnd(Math.ceil((text.length + 11) / 64) * 64 - 11) + '\n';
  const prefix = Buffer.from([0x93, ...Buffer.from('NUMPY'), 1, 0, 0, 0]);
  prefix.writeUInt16LE(header.length, 8);
  writeFileSync(path, Buffer.concat([prefix, Buffer.from(header), Buffer.from(values.buffer)]));
}

/** The values of a NumPy file with the type of `like`. */
export function readNpy<V extends Values>(path: string, like: V): V {
  const bytes = readFileSync(path);
  const start = 10 + bytes.readUInt16LE(8);
  const data = Uint8Array.from(bytes.subarray(start)).buffer;
  return new (like.constructor as new (data: ArrayBuffer) => V)(data);
}
