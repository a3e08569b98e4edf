// The logit lens: the prediction of each layer, if the network ended there.

import type { Prediction, PromptReading } from '../../kernels/trained';
import { t } from '../../language/text';
import { LineChart } from '../../ui/line-chart';
import { percent, roundNumber } from '../../ui/numbers';
import { DataTable } from '../../ui/table';
import { PromptList } from './prompt-list';
import { byteName, lensWords, ranked } from './words';

const SHOWN = 3; // bytes of each layer

export function Lens({ reading: { lens } }: { reading: PromptReading }) {
  return (
    <>
      <p>
        {t`In pre-norm every layer adds to the same stream, so the last norm and the head can read it
          after any layer, not only after the last. This is the logit lens. It shows what the network
          would predict if it ended there.`}{' '}
        {lensWords(lens)}
      </p>
      <PromptList />
      <div class="model-lens">
        <DataTable
          caption={t`The likeliest next bytes after each layer`}
          visible
          columns={[t`read after`, '1', '2', '3', t`loss in nats per byte`]}
          rows={lens.map((prediction, i) => ({
            head: i === 0 ? t`embedding` : t`layer ${i - 1}`,
            cells: cellsOf(prediction),
            data: { lens: String(i) },
          }))}
        />
        <LineChart
          name={t`Loss of the prediction after each layer`}
          xLabel={t`layers`}
          yLabel={t`nats per byte`}
          x={lens.map((_, i) => i)}
          curves={[
            { name: t`loss`, colour: 'var(--output)', values: lens.map(({ loss }) => loss) },
          ]}
          atLeast={[0, 0]}
        />
      </div>
    </>
  );
}

/** The likeliest bytes with their probabilities, and the loss. */
function cellsOf({ next, loss }: Prediction): string[] {
  const bytes = ranked([...next]).slice(0, SHOWN);
  return [
    ...bytes.map((byte) => `${byteName(byte)} ${percent(next[byte], 2)}`),
    roundNumber(loss, 3),
  ];
}
