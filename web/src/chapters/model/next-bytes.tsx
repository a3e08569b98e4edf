// The predicted bytes after the prompt.

import { scaleLinear } from 'd3-scale';
import type { Prediction } from '../../kernels/trained';
import { t } from '../../language/text';
import { Figure } from '../../ui/figure';
import { Label } from '../../ui/marks';
import { exactNumber, percent } from '../../ui/numbers';
import { DataTable } from '../../ui/table';
import { textWidth } from '../../ui/text-width';
import { EDGE, LINE, type Named, Names } from './plot';
import { byteName, ranked } from './words';

interface NextBytesProps {
  whole: Prediction;
  without?: Prediction;
  skipped?: string; // the part that `without` lacks
}

/** The predictions of one network. */
interface Chances extends Named {
  next: Float64Array;
}

const SHOWN = 8;
const BAR = 12;
const PITCH = 13; // between the bars of one byte

/** The likeliest bytes after the prompt, for the whole network and for one without a part. */
export function NextBytes({ whole, without, skipped }: NextBytesProps) {
  const bytes = ranked([...whole.next]).slice(0, SHOWN);
  const networks: Chances[] = [
    { name: t`whole network`, colour: 'var(--output)', next: whole.next },
  ];
  if (without) {
    networks.push({ name: t`without ${skipped}`, colour: 'var(--broken)', next: without.next });
  }
  const title = t`The next byte`;
  return (
    <Figure
      name={t`${title}: the likeliest ${SHOWN} and their probabilities, as in the table that follows.`}
      title={title}
      width={640}
      height={topOf(networks) + pitchOf(networks) * SHOWN + EDGE}
      draw={(width) => <Bars bytes={bytes} networks={networks} width={width} />}
    >
      <DataTable
        caption={t`${title}, and its probability`}
        columns={[t`byte`, ...networks.map(({ name }) => name)]}
        rows={bytes.map((byte) => ({
          head: byteName(byte),
          cells: networks.map(({ next }) => next[byte]),
          data: { byte: String(byte) },
        }))}
        format={exactNumber}
      />
    </Figure>
  );
}

/** The top of the bars: below the names if there are several networks. */
const topOf = ({ length }: readonly Chances[]) => EDGE + (length > 1 ? 1.5 * LINE : 0);
const pitchOf = ({ length }: readonly Chances[]) => 6 + PITCH * length;

interface BarsProps {
  bytes: readonly number[];
  networks: readonly Chances[];
  width: number;
}

function Bars({ bytes, networks, width }: BarsProps) {
  const pitch = pitchOf(networks);
  const left = EDGE + Math.max(...bytes.map((byte) => textWidth(byteName(byte), 600))) + 8;
  const most = Math.max(...networks.flatMap(({ next }) => bytes.map((byte) => next[byte])));
  const x = scaleLinear([0, most], [0, width - left - 64]);
  return (
    <>
      {networks.length > 1 && <Names names={networks} />}
      {bytes.map((byte, i) => (
        <g key={byte} transform={`translate(${left} ${topOf(networks) + pitch * i})`}>
          <Label at={[-8, pitch / 2]} anchor="end" class="strong">
            {byteName(byte)}
          </Label>
          {networks.map(({ name, colour, next }, k) => (
            <g key={name} transform={`translate(0 ${3 + PITCH * k})`}>
              <rect class="bar" width={Math.max(1, x(next[byte]))} height={BAR} fill={colour} />
              <Label at={[x(next[byte]) + 6, BAR / 2]} anchor="start">
                {chance(next[byte])}
              </Label>
            </g>
          ))}
        </g>
      ))}
    </>
  );
}

function chance(share: number): string {
  return share < 0.001 ? '< 0.1 %' : percent(share);
}

/** The prompt and the network's continuation. */
export function Continuation({ prompt, prediction }: { prompt: string; prediction: Prediction }) {
  return (
    <p class="model-text">
      {prompt}
      <mark>{new TextDecoder().decode(prediction.continuation).replaceAll(' ', '␣')}</mark>
    </p>
  );
}
