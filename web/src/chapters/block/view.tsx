// The chapter “The block”: one block, its shapes, its parameters and its code.

import { plural, t, Trans } from '../../language/text';
import { Advanced } from '../../ui/advanced';
import { ChapterLink, Checkbox, Choice, Code, Presets, TextField } from '../../ui/controls';
import { Figure } from '../../ui/figure';
import { Formula } from '../../ui/formula';
import { PLACEMENT_NAMES } from '../../ui/names';
import { grouped, percent, roundNumber } from '../../ui/numbers';
import { DataTable } from '../../ui/table';
import { CODE } from './code';
import { BlockDiagram, heightOf } from './diagram';
import { CausalMask } from './masked';
import {
  ACTIVATION_NAMES,
  blockParameters,
  type BlockNorm,
  headSize,
  headsProblem,
  partsOf,
  stepsOf,
} from './model';
import { MODELS, state } from './state';
import './style.css';

const EQUATIONS: Record<BlockNorm, string> = {
  pre:
    '\\begin{aligned}h &= x + \\mathrm{MHA}(\\mathrm{LN}(x))\\\\' +
    'y &= h + \\mathrm{FFN}(\\mathrm{LN}(h))\\end{aligned}',
  post:
    '\\begin{aligned}h &= \\mathrm{LN}(x + \\mathrm{MHA}(x))\\\\' +
    'y &= \\mathrm{LN}(h + \\mathrm{FFN}(h))\\end{aligned}',
};

export function BlockChapter() {
  const placement = state.placement.value;
  return (
    <>
      <p>
        <Trans>
          A block has two sublayers: attention, where tokens read each other, and the feed-forward
          network, which processes each token by itself. Each sublayer has its own Add & Norm. A
          model is N such blocks, one after the other. Input and output have the same shape, so they
          can be added, and blocks can be stacked.
        </Trans>
      </p>
      <Controls />
      <div class="block-columns">
        <Diagram />
        <div>
          <Formula tex={EQUATIONS[placement]} block />
          <Parts />
        </div>
      </div>
      <CausalMask />
      <Advanced heading title={t`The same block as code`} state={[state.language]}>
        <Example />
      </Advanced>
    </>
  );
}

function currentSizes() {
  return { dModel: state.dModel.value, heads: state.heads.value, dFf: state.dFf.value };
}

function Controls() {
  return (
    <>
      <Presets label={t`Models`} state={state} presets={MODELS} />
      <div class="controls block-sizes">
        <TextField label="d_model" item={state.dModel} />
        <TextField label="n_heads" item={state.heads} problem={headsProblem(currentSizes())} />
        <TextField label="d_ff" item={state.dFf} />
        <TextField label={t`Layers N`} item={state.layers} />
        <Choice label={t`Placement`} item={state.placement} labels={PLACEMENT_NAMES} />
        <Checkbox label={t`Causal mask`} item={state.causal} />
        <Choice label={t`Activation`} item={state.activation} labels={ACTIVATION_NAMES} />
      </div>
    </>
  );
}

function Diagram() {
  const placement = state.placement.value;
  const halves = stepsOf(currentSizes(), placement, state.causal.value, state.activation.value);
  return (
    <div>
      <Figure
        name={t`A block with ${PLACEMENT_NAMES[placement]}, its shapes and parameters, as in the table that follows.`}
        width={460}
        height={heightOf(halves)}
        draw={(width) => <BlockDiagram width={width} halves={halves} />}
      >
        <DataTable
          caption={t`The block, step by step`}
          columns={[t`operation`, t`output shape`, t`parameters`]}
          rows={halves.flat().map(({ name, shape, parameters }) => ({
            head: name,
            cells: [shape, grouped(parameters)],
          }))}
        />
      </Figure>
      <p>
        {t`The input has B sequences of T tokens. The line on the left is the residual stream.
          Branches are orange, and norms are filled.`}{' '}
        {placement === 'pre'
          ? t`No norm stands in the stream: it runs from x to y through sums alone.`
          : t`The norms stand in the stream itself.`}
      </p>
    </div>
  );
}

function Parts() {
  const sizes = currentSizes();
  const layers = state.layers.value;
  const parts = partsOf(sizes);
  const one = blockParameters(sizes);
  const shares = parts.map(({ parameters }) => percent(parameters / one));
  return (
    <>
      <div class="block-parts">
        <DataTable
          caption={t`Parameters, part by part`}
          visible
          rows={[
            ...parts.map(({ id, name, formula, arithmetic, parameters }) => ({
              head: (
                <>
                  {name} <Formula tex={formula} />
                  <span class="arithmetic">{arithmetic}</span>
                </>
              ),
              cells: [parameters],
              data: { part: id },
            })),
            { head: t`One block`, cells: [one], class: 'total', data: { part: 'block' } },
            {
              head: (
                <>
                  {plural(layers, '{count} block', '{count} blocks', { count: grouped(layers) })}
                  <span class="arithmetic">
                    {grouped(layers)} · {grouped(one)}
                  </span>
                </>
              ),
              cells: [layers * one],
              class: 'total',
              data: { part: 'layers' },
            },
          ]}
          format={grouped}
        />
      </div>
      <p>
        {t`Attention has ${shares[0]} of them, the feed-forward network ${shares[1]}, the norms
          ${shares[2]}.`}{' '}
        {headsProblem(sizes)
          ? t`n_heads appears in none of the formulas: the heads share d_model in equal parts.`
          : t`n_heads appears in none of the formulas: the heads share d_model, ${headSize(sizes)} features each.`}{' '}
        {t`B and T do not appear in them either. In float32 one block takes ${memory(4 * one)}, and
          its gradients take as much again.`}
      </p>
      <p>
        {state.placement.value === 'pre'
          ? t`Not counted: embeddings and the head, and the norm that ends a pre-norm stack (2 · ${grouped(sizes.dModel)} more).`
          : t`Not counted: embeddings and the head.`}{' '}
        <Trans>
          <ChapterLink to="placement">Where the norm goes</ChapterLink> shows what pre-norm and
          post-norm do to training. Both have the same number of parameters.
        </Trans>
      </p>
    </>
  );
}

function memory(bytes: number): string {
  const power = Math.min(4, Math.max(0, Math.floor(Math.log10(bytes) / 3)));
  return `${roundNumber(bytes / 1000 ** power, 3)} ${[t`bytes`, 'kB', 'MB', 'GB', 'TB'][power]}`;
}

const CODE_LABELS = {
  cpp: t`C++ with addnorm`,
  python: t`Python with PyTorch`,
  js: t`JavaScript with addnorm`,
};

const FILES = { cpp: 'block.cc', python: 'block.py', js: 'block.mjs' };

const COMMANDS = {
  cpp: `cmake --preset release
cmake --build --preset release \\
  --target addnorm_example_block
build/release/bin/addnorm_example_block`,
  python: 'python3 examples/block.py',
  js: `make page
npm pack ./web/packages/addnorm --pack-destination build
npm install build/addnorm-*.tgz
node examples/block.mjs`,
};

function Example() {
  const language = state.language.value;
  const file = FILES[language];
  const code = CODE[language](
    currentSizes(),
    state.placement.value,
    state.causal.value,
    state.activation.value,
  );
  return (
    <>
      <p>
        <Trans>
          Each program creates this block, draws its weights with seed 0 and runs it on a random x
          of two sequences of ten tokens. It prints the shape of y, the number of parameters and the
          mean |y − x|. The library draws PyTorch’s random numbers in PyTorch’s order. So for
          d_model 512, 8 heads, d_ff 2048, pre-norm, no mask and ReLU, C++ and Python both print 2 x
          10 x 512, 3152384 and 0.2057. JavaScript draws the same weights but another x, so its mean
          is only close to that.
        </Trans>
      </p>
      <p>
        <Trans>
          During training, dropout often stands at the end of each branch, before the sum: x +
          Dropout(F(LN(x))). PyTorch code writes a post-norm sublayer with dropout as{' '}
          <code>norm(x + dropout(sublayer(x)))</code>, with <code>norm = nn.LayerNorm(64)</code> and{' '}
          <code>dropout = nn.Dropout(0.1)</code>. Dropout changes no shape, and in evaluation it
          does nothing.
        </Trans>
      </p>
      <div class="controls">
        <Choice label={t`Programming language`} item={state.language} labels={CODE_LABELS} />
        <Choice label={t`Placement`} item={state.placement} labels={PLACEMENT_NAMES} />
        <Checkbox label={t`Causal mask`} item={state.causal} />
        <Choice label={t`Activation`} item={state.activation} labels={ACTIVATION_NAMES} />
      </div>
      <Code name={file} text={code} />
      <p>
        <Trans>
          In the repository this is <code>examples/{{ file }}</code>. To run it:
        </Trans>
      </p>
      <pre class="block-command">
        <code>{COMMANDS[language]}</code>
      </pre>
    </>
  );
}
