// The large models whose stream has several lanes.

import { t, Trans } from '../../language/text';
import { DataTable } from '../../ui/table';

export function Models() {
  return (
    <>
      <p>
        <Trans>
          In 2026 two of the largest open models replaced the single stream, each in its own way.
          Megatron-LM added a third way. The papers measured the improvement on smaller test models,
          with and without the new stream:
        </Trans>
      </p>
      <div class="lanes-models">
        <DataTable
          caption={t`What each model does, and what it costs`}
          visible
          columns={[t`model`, t`its stream`, t`values moved / d`, t`its paper’s test model`]}
          rows={MODELS.map(([source, model, ...cells]) => ({
            head: source ? <a href={source}>{model}</a> : model,
            cells,
          }))}
        />
      </div>
      <p class="hint">
        {t`Values moved: how many values an Add & Norm reads and writes for each token and sublayer,
          in one pass over memory, divided by the width d. BBH is a collection of reasoning tasks,
          GPQA of questions in science; both give the percentage of correct answers.`}
      </p>
    </>
  );
}

const MODELS = [
  [
    'https://arxiv.org/abs/2606.19348',
    'DeepSeek-V4',
    t`mHC: 4 lanes, mixed by averages that cannot amplify`,
    t`10 to 14`,
    t`27 billion parameters: BBH from 43.8 to 51.0; 6.7 % more training time`,
  ],
  [
    'https://arxiv.org/abs/2603.15031',
    'Kimi K3',
    t`Attention Residuals: a lane for each block of layers, at most 9 to read`,
    t`about 5.5`,
    t`48 billion parameters: GPQA from 36.9 to 44.4; less than 4 % more training time`,
  ],
  [
    'https://github.com/NVIDIA/Megatron-LM/pull/6716',
    t`Megatron-LM, by NVIDIA and Mistral`,
    t`wide residual: lanes that are never mixed`,
    t`10 with 4 lanes`,
    t`none published yet`,
  ],
  ['', t`Llama, GPT-2 and most others`, t`one lane, pre-norm`, '4', t`the baseline of the others`],
];
