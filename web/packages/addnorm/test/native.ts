// For tests: the native program, with which the module is compared, and NumPy's files.

import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Values } from '../src/index.js';

export const root = fileURLToPath(new URL('../../../..', import.meta.url));

/** Deterministic values of mixed size (Park and Miller 1988). */
export function draw(n: number, seed: number): Float64Array {
  let state = seed;
  const next = () => (state = (state * 48271) % 2147483647) / 2147483647;
  return Float64Array.from({ length: n }, () => (next() - 0.5) * 10 ** Math.round(4 * next() - 2));
}

/** The standard output of `addnorm …`. */
export function native(...flags: (string | number)[]): string {
  return execFileSync(`${root}build/release/bin/addnorm`, flags.map(String), { encoding: 'utf8' });
}

/** Runs `body` with a temporary folder. */
export function withFolder<R>(body: (path: (name: string) => string) => R): R {
  const folder = mkdtempSync(join(tmpdir(), 'addnorm-'));
  try {
    return body((name) => join(folder, name));
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** Writes a NumPy file of this shape, like numpy.save. */
export function writeNpy(
  path: string,
  shape: readonly number[],
  values: Values | Int32Array,
): void {
  const descr = `<${values instanceof Int32Array ? 'i' : 'f'}${values.BYTES_PER_ELEMENT}`;
  const dims = shape.join(', ') + (shape.length === 1 ? ',' : '');
  const text = `{'descr': '${descr}', 'fortran_order': False, 'shape': (${dims}), }`;
  const header = text.padEnd(Math.ceil((text.length + 11) / 64) * 64 - 11) + '\n';
  const prefix = Buffer.from([0x93, ...Buffer.from('NUMPY'), 1, 0, 0, 0]);
  prefix.writeUInt16LE(header.length, 8);
  writeFileSync(path, Buffer.concat([prefix, Buffer.from(header), Buffer.from(values.buffer)]));
}

/** The values of a NumPy file, with the type of `like`. */
export function readNpy<V extends Values>(path: string, like: V): V {
  const bytes = readFileSync(path);
  const start = 10 + bytes.readUInt16LE(8);
  const data = Uint8Array.from(bytes.subarray(start)).buffer;
  return new (like.constructor as new (data: ArrayBuffer) => V)(data);
}

/** The output of `addnorm norm` for these files, one per flag. */
export function nativeNorm<V extends Values>(
  given: Record<string, [values: V, ...shape: number[]]>,
  wanted: string[],
  more: (string | number)[] = [],
): V[] {
  return withFolder((path) => {
    for (const [name, [values, ...shape]] of Object.entries(given)) {
      writeNpy(path(name), shape, values);
    }
    const names = [...Object.keys(given), ...wanted];
    native('norm', ...names.flatMap((name) => [`--${name}`, path(name)]), ...more);
    return wanted.map((name) => readNpy(path(name), given.input[0]));
  });
}
