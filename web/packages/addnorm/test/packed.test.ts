// The package as users get it: packed, installed into an empty project, and run in Node and
// Chromium. The test compares it with the native program and with float64.

import { execFileSync } from 'node:child_process';
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { launchChromium } from '../../../test/chromium.js';
import { startServer } from '../../../test/serve.js';
import { nativeNorm, root } from './native.js';
import { difference, reference } from './reference.js';

const source = fileURLToPath(new URL('..', import.meta.url));
const project = mkdtempSync(join(tmpdir(), 'addnorm-packed-'));
afterAll(() => rmSync(project, { recursive: true }));

// `npm --prefix web test` passes its own settings on, so they are removed here.
const env = Object.fromEntries(
  Object.entries(process.env).filter(([name]) => !/^npm_/i.test(name)),
);
const run = (command: string, ...args: string[]) =>
  execFileSync(command, args, {
    cwd: project,
    encoding: 'utf8',
    env,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
const write = (name: string, text: string) => writeFileSync(join(project, name), text);

let packed: { filename: string; version: string; files: { path: string }[] };
beforeAll(() => {
  const npm = ['--ignore-scripts', '--loglevel=error'];
  [packed] = JSON.parse(run('npm', 'pack', source, '--json', ...npm));
  write('package.json', '{"private": true, "type": "module"}');
  run('npm', 'install', '--offline', '--no-audit', '--no-fund', ...npm, packed.filename);
  copyFileSync(join(source, 'test/exercise.js'), join(project, 'exercise.js'));
});

test('it holds what was built, and has the library’s version', () => {
  const names = packed.files
    .map(({ path }) => path)
    .filter((path) => !/^dist\/.*\.(js|d\.ts)$/.test(path));
  expect(names.sort()).toEqual(['LICENSE', 'README.md', 'dist/addnorm.wasm', 'package.json']);
  const cmake = readFileSync(`${root}CMakeLists.txt`, 'utf8');
  expect(packed.version).toBe(/project\(addnorm VERSION (\S+)/.exec(cmake)![1]);
});

/** The result of exercise.js in Node. */
function inNode(): string {
  write(
    'run.js',
    `import * as addnorm from 'addnorm';
    import { exercise } from './exercise.js';
    process.stdout.write(await exercise(addnorm));`,
  );
  return run('node', 'run.js');
}

test('Node: norms have the native bits, a block is that of float64', () => {
  const found = JSON.parse(inNode());
  const floats = (values: number[]) => Float32Array.from(values);
  const [x, branch, dy, gamma, beta] = [
    found.x,
    found.branch,
    found.dy,
    found.gamma,
    found.beta,
  ].map(floats);
  const rows = (values: Float32Array) => [values, 6, 8] as [Float32Array, ...number[]];
  const affine = { gamma: [gamma, 8], beta: [beta, 8] } as Record<string, [Float32Array, number]>;
  const names = ['output', 'sum', 'grad-input', 'grad-gamma', 'grad-beta'];
  const given = { input: rows(x), residual: rows(branch), 'grad-output': rows(dy), ...affine };
  const { forward, backward } = found;
  expect(
    [forward.y, forward.sum, backward.dx, backward.dGamma, backward.dBeta].map(floats),
  ).toEqual(nativeNorm(given, names));
  expect(found.message).toBe('x has 48 values, must have whole rows of 7');

  const { parameters, y, dx } = found.block;
  const sizes = { dModel: 8, heads: 2, dFf: 16, length: 3, layer: 1, layers: 1 };
  const at = (values: ArrayLike<number>) => {
    const all = Object.entries({ ...parameters, x: values } as Record<string, number[]>);
    const doubles = Object.fromEntries(all.map(([name, v]) => [name, Float64Array.from(v)]));
    return reference(doubles, sizes, { placement: 'post', causal: true });
  };
  expect(difference(y, at(x))).toBeLessThan(1e-5);
  const slope = Array.from(x, (_, i) => {
    const [more, less] = [1e-5, -1e-5].map((step) =>
      at(Array.from(x, (v, j) => (i === j ? v + step : v))),
    );
    return more.reduce((sum, v, j) => sum + (dy[j] * (v - less[j])) / 2e-5, 0);
  });
  expect(difference(dx, slope)).toBeLessThan(1e-5);
});

test('Chromium: the bits of Node, from any server, under a strict policy', async () => {
  write(
    'index.html',
    `<!doctype html>
    <meta http-equiv="Content-Security-Policy"
      content="default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; connect-src 'self'">
    <link rel="icon" href="data:,">
    <script type="module" src="page.js"></script>`,
  );
  write(
    'page.js',
    `import * as addnorm from './node_modules/addnorm/dist/index.js';
    import { exercise } from './exercise.js';
    globalThis.result = await exercise(addnorm).catch((error) => error.message);`,
  );
  const [server, browser] = [await startServer(['--port', '0'], project), await launchChromium()];
  try {
    const page = await browser.newPage();
    await page.goto(server.address);
    // A function, not a string: the page's policy forbids evaluating a string again while waiting.
    const result = await page.waitForFunction(() => Reflect.get(globalThis, 'result') as unknown);
    expect(await result.jsonValue()).toBe(inNode());
  } finally {
    await browser.close();
    server.stop();
  }
});

test('the example of its README prints what it says', () => {
  const readme = readFileSync(join(project, 'node_modules/addnorm/README.md'), 'utf8');
  const example = /```js\n([^]*?)```/.exec(readme)![1];
  write('example.js', example);
  const said = [...example.matchAll(/console\.log.*;\s*\/\/ (.*)/g)].map(([, text]) => text);
  expect(said.length).toBeGreaterThan(2);
  expect(run('node', 'example.js').trimEnd().split('\n')).toEqual(said);
});

test('its types take what it takes, and nothing else', () => {
  write(
    'types.ts',
    `import { type AddNormResult, KernelError, load } from 'addnorm';
    const addnorm = await load(new URL('file:///addnorm.wasm'));
    const x = new Float32Array(8);
    const norm: AddNormResult<Float32Array> = addnorm.addNorm(x, x, { features: 4, kind: 'rms' });
    const y: Float32Array = addnorm.layerNorm(norm.sum, { features: 4 });
    const z: Float64Array = addnorm.rmsNorm(new Float64Array(8), { features: 4 });
    const block = addnorm.block({ dModel: 4, heads: 1, dFf: 4 });
    const gradient: Float32Array = block.backward(block.forward(y)).gradients['attention.key.bias'];
    new KernelError(String([z, gradient]));
    // @ts-expect-error
    addnorm.layerNorm(x, {});
    // @ts-expect-error
    addnorm.layerNorm([1, 2], { features: 2 });
    // @ts-expect-error
    addnorm.addNorm(x, new Float64Array(8), { features: 4 });
    // @ts-expect-error
    addnorm.layerNorm(x, { features: 4, eps: 1e-6 });
    // @ts-expect-error
    addnorm.block({ dModel: 4, heads: 1, dFf: 4, feedForward: 'tanh' });`,
  );
  const tsc = fileURLToPath(new URL('../../../node_modules/.bin/tsc', import.meta.url));
  const flags = [
    '--noEmit',
    '--strict',
    '--module',
    'nodenext',
    '--target',
    'es2022',
    '--types',
    '',
  ];
  run(tsc, ...flags, 'types.ts');
});
