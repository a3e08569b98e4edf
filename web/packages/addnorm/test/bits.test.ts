// The kernels in WebAssembly, with streams of several lanes and with 16 bits of storage, which the
// package's own module does not offer: the bits that src/kernels/same_bits_test.cc expects.

import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { Instance } from '../src/instance.js';
import { root } from './native.js';

test('the kernels give the bits of every machine', () => {
  const module = new WebAssembly.Module(readFileSync(`${root}build/wasm/bin/bits.wasm`));
  expect(WebAssembly.Module.imports(module)).toEqual([]);
  const instance = new Instance(module);
  expect(instance.text(instance.exports.other_bits())).toBe('');
});
