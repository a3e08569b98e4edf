import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { beforeAll, describe, expect, test } from 'vitest';
import type { Arrangement, Kernels, SessionOptions } from '../../kernels/kernels';
import { loadKernels } from '../../kernels/current';
import { CODE } from './code';
import { MODELS } from './state';
import { type BlockSizes, blockParameters, headsProblem, stepsOf } from './model';

let kernels: Kernels;
beforeAll(async () => {
  kernels = await loadKernels();
});

// The feed-forward network of a session is four times as wide as its stream.
const sizes = [
  [2, 1],
  [6, 3],
  [32, 4],
  [512, 8],
].map(([dModel, heads]) => ({ dModel, heads, dFf: 4 * dModel }));

/** The number of parameters that one more layer adds to a model of the library. */
function counted(arrangement: Arrangement, { dModel, heads }: BlockSizes): number {
  const [one, two] = [1, 2].map((layers) => {
    const options = { ...OPTIONS, layers, width: dModel, heads };
    const session = kernels.session(arrangement, options, new Uint8Array(100));
    session.destroy();
    return session.parameters;
  });
  return two - one;
}

const OPTIONS: SessionOptions = {
  layers: 1,
  width: 2,
  heads: 1,
  context: 4,
  batch: 1,
  learningRate: 0.001,
  warmUp: 0,
  seed: 0,
  initialization: 'torch',
  norm: 'layer',
};

describe.each(sizes)('%o', (size) => {
  test.each(['pre', 'post'] as const)('the library counts the same, %s', (placement) => {
    const row = kernels.placements().find(({ name }) => name === placement)!;
    const wanted = counted(row, size);
    expect(blockParameters(size)).toBe(wanted);
    for (const causal of [false, true]) {
      const steps = stepsOf(size, placement, causal).flat();
      expect(steps.reduce((sum, step) => sum + step.parameters, 0)).toBe(wanted);
    }
  });
});

test('the source document’s block has 3,152,384', () => {
  expect(blockParameters({ dModel: 512, heads: 8, dFf: 2048 })).toBe(3152384);
});

test.each([
  ['Transformer base', { placement: 'post', causal: false, activation: 'relu' }, 'ReLU'],
  ['GPT-2 small', { placement: 'pre', causal: true, activation: 'gelu' }, 'GELU'],
  ['GPT-3', { placement: 'pre', causal: true, activation: 'gelu' }, 'GELU'],
])('%s has the placement, mask and activation of its paper', (name, wanted, step) => {
  const model = MODELS.find((one) => one.name === name)!;
  expect(model).toMatchObject(wanted);
  const names = stepsOf(model, model.placement, model.causal, model.activation)
    .flat()
    .map((one) => one.name);
  expect(names).toContain(step);
  expect(names.includes('later tokens: −∞')).toBe(model.causal);
});

test('says which heads would divide d_model', () => {
  const problem = (dModel: number, heads: number) => headsProblem({ dModel, heads, dFf: 1 });
  expect(problem(512, 8)).toBe('');
  expect(problem(512, 7)).toBe('is 7; it must divide d_model = 512, as 4 and 8 do');
  expect(problem(6, 9)).toBe('is 9; it must divide d_model = 6, as 6 does');
});

test('puts sizes, placement, mask and activation into the code', () => {
  const size = { dModel: 64, heads: 4, dFf: 100 };
  const [cpp, python, js] = (['cpp', 'python', 'js'] as const).map((language) => ({
    pre: CODE[language](size, 'pre', false, 'relu'),
    post: CODE[language](size, 'post', true, 'gelu'),
  }));
  for (const piece of ['d_model = 64;', 'n_heads = 4;', 'd_ff = 100;', 'causal = true;']) {
    expect(cpp.post).toContain(piece);
    expect(js.post).toContain(piece);
  }
  expect(cpp.post).toContain('("post")');
  expect(cpp.pre).toContain('("pre")');
  expect(cpp.pre).toContain('causal = false;');
  expect(python.post).toContain('d_model = 64\nn_heads = 4\nd_ff = 100\n');
  expect(python.post).toContain('causal = True\n');
  expect(python.post).toContain('return norm(x + sublayer(x))\n');
  expect(python.pre).toContain('return x + sublayer(norm(x))\n');
  expect(python.pre).toContain('causal = False\n');
  expect(js.post).toContain("placement: 'post'");
  expect(js.pre).toContain("placement: 'pre'");
  expect(cpp.pre).toContain('feed_forward = FeedForwardKind::kRelu,');
  expect(cpp.post).toContain('feed_forward = FeedForwardKind::kGeluTanh,');
  expect(python.pre).toContain('return self.down(torch.relu(self.up(x)))\n');
  expect(python.post).toContain(
    'return self.down(nn.functional.gelu(self.up(x), approximate="tanh"))\n',
  );
  expect(js.pre).toContain("feedForward: 'relu'");
  expect(js.post).toContain("feedForward: 'gelu-tanh'");
});

test.each([
  ['pre', false, 'relu'],
  ['post', true, 'gelu'],
] as const)('JavaScript runs as it stands, %s', (placement, causal, activation) => {
  const size = { dModel: 64, heads: 4, dFf: 100 };
  const code = CODE.js(size, placement, causal, activation);
  const web = fileURLToPath(new URL('../../..', import.meta.url));
  const program = ['--input-type=module', '--eval', code];
  const printed = execFileSync(process.execPath, program, { cwd: web, encoding: 'utf8' });
  const [, parameters, mean] =
    /^shape +2 x 10 x 64\nparameters +(\d+)\nmean \|y-x\| +(\d\.\d{4})\n$/.exec(printed)!;
  expect(Number(parameters)).toBe(blockParameters(size));
  expect(Number(mean)).toBeGreaterThan(0.05);
});
