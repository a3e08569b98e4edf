// The kernels in WebAssembly, with several lanes and with 16-bit storage, which the package's own
// module does not offer. The test expects the bits of src/kernels/same_bits_test.cc.

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
