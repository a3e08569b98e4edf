// What may follow the prompt.

import { scaleLinear } from 'd3-scale';
import type { Prediction } from '../../kernels/trained';
import { Figure } from '../../ui/figure';
import { Label } from '../../ui/marks';
import { exactNumber, percent } from '../../ui/numbers';
import { DataTable } from '../../ui/table';
import { textWidth } from '../../ui/text-width';
import { EDGE, LINE, Names } from './plot';
import { byteName, ranked } from './words';

interface NextBytesProps {
  whole: Prediction;
  without?: Prediction;
  skipped?: string; // what that one does without
}

const SHOWN = 8;

/** The likeliest bytes after the prompt, by the whole network and by one that lacks something. */
export function NextBytes({ whole, without, skipped }: NextBytesProps) {
  const bytes = ranked([...whole.next]).slice(0, SHOWN);
  const both = [
    { name: 'whole network', colour: 'var(--output)', next: whole.next },
    ...(without
      ? [{ name: `without ${skipped}`, colour: 'var(--broken)', next: without.next }]
      : []),
  ];
  const most = Math.max(...both.flatMap(({ next }) => bytes.map((byte) => next[byte])));
  const title = 'The next byte';
  const row = 8 + 13 * both.length;
  const top = EDGE + (without ? 1.5 * LINE : 0);
  const left = EDGE + Math.max(...bytes.map((byte) => textWidth(byteName(byte), 600))) + 8;
  return (
    <Figure
      name={`${title}: the likeliest ${SHOWN} and their probabilities, as in the table that follows.`}
      title={title}
      width={640}
      height={top + row * SHOWN + EDGE}
      draw={(width) => {
        const x = scaleLinear([0, most], [0, width - left - 64]);
        return (
          <>
            {without && <Names names={both} />}
            {bytes.map((byte, i) => (
              <g key={byte} transform={`translate(${left} ${top + row * i})`}>
                <Label at={[-8, row / 2]} anchor="end" class="strong">
                  {byteName(byte)}
                </Label>
                {both.map(({ name, colour, next }, k) => (
                  <g key={name} transform={`translate(0 ${4 + 13 * k})`}>
                    <rect
                      class="bar"
                      width={Math.max(1, x(next[byte]))}
                      height={12}
                      fill={colour}
                    />
                    <Label at={[x(next[byte]) + 6, 6]} anchor="start">
                      {chance(next[byte])}
                    </Label>
                  </g>
                ))}
              </g>
            ))}
          </>
        );
      }}
    >
      <DataTable
        caption={`${title}, and its probability`}
        columns={['byte', ...both.map(({ name }) => name)]}
        rows={bytes.map((byte) => ({
          head: byteName(byte),
          cells: both.map(({ next }) => next[byte]),
          data: { byte: String(byte) },
        }))}
        format={exactNumber}
      />
    </Figure>
  );
}

function chance(share: number): string {
  return share < 0.001 ? '< 0.1 %' : percent(share);
}

/** The prompt, and how the network goes on. */
export function Continuation({ prompt, prediction }: { prompt: string; prediction: Prediction }) {
  return (
    <p class="model-text">
      {prompt}
      <mark>{new TextDecoder().decode(prediction.continuation).replaceAll(' ', '␣')}</mark>
    </p>
  );
}
