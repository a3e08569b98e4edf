// The chapter about a small trained network: its reading of a prompt, layer by layer.

import { networkMissing } from '../../kernels/files';
import type { PromptReading } from '../../kernels/trained';
import { t, Trans } from '../../language/text';
import { Advanced } from '../../ui/advanced';
import { ChapterLink, Failure, Presets, TextField } from '../../ui/controls';
import { LineChart } from '../../ui/line-chart';
import { useNear } from '../../ui/near';
import { grouped } from '../../ui/numbers';
import { Wait } from '../../ui/room';
import { FeatureMap } from './feature-map';
import { GammaDots } from './gamma-dots';
import { Lens } from './lens';
import { Continuation, NextBytes } from './next-bytes';
import { ATTENTION, FEED_FORWARD } from './plot';
import { PromptList } from './prompt-list';
import { problem, read, type Shown, shown } from './reading';
import { RealModel } from './real-model';
import { Skipping } from './skipping';
import { PROMPTS, state } from './state';
import './style.css';
import { featureWords, gammaWords, growthWords, priceWords, shares } from './words';

export function SmallModel() {
  const prompt = state.prompt.value;
  const element = useNear<HTMLDivElement>(prompt, () => {
    if (networkMissing === '') void read(prompt);
  });
  return (
    <div ref={element}>
      <p>
        <Trans>
          In trained models the stream has grown, some features are much larger than the others, and
          some layers are hardly needed. This makes the models hard to quantize and easy to prune.
          At the start of training none of this is the case. The stacks of the other chapters have
          their initial weights, or were trained for seconds. This network was trained, byte by
          byte, on nine tenths of the King James Bible. Give it a text, and see how training has
          changed the stream and the norms.
        </Trans>
      </p>
      {networkMissing === '' ? <Prompted /> : <p>{networkMissing}</p>}
      <RealModel />
    </div>
  );
}

/** A prompt, and the network's reading of it. */
function Prompted() {
  return (
    <>
      <Presets label={t`Prompts`} state={state} presets={PROMPTS} />
      <TextField label={t`Prompt`} item={state.prompt} rows={2} format={(text) => text} />
      <Failure text={problem.value} />
      {shown.value ? (
        <Results {...shown.value} />
      ) : (
        problem.value === '' && (
          <Wait height={[3850, 2425, 2425]}>{t`The network is being loaded.`}</Wait>
        )
      )}
    </>
  );
}

function Results({ prompt, reading }: Shown) {
  const { layers, width, context, parameters, gammas } = reading.network;
  const rows = reading.features.filter((_, i) => i % 2 === 0); // at each layer, and the end
  return (
    <>
      <p class="hint">
        {t`The network is pre-norm with ${layers} layers, width ${width} and ${grouped(parameters)}
          weights. It reads up to ${context} bytes. It is small enough for this page, but too small
          to write well. It continues with the most likely byte each time:`}
      </p>
      <Continuation prompt={prompt} prediction={reading.whole} />
      <NextBytes whole={reading.whole} />
      <h3>{t`The logit lens`}</h3>
      <Lens reading={reading} />
      <h3>{t`The size of the stream`}</h3>
      <Growth reading={reading} />
      <h3>{t`A few features stand out`}</h3>
      <p>
        {t`Training does not treat features alike.`} {featureWords(rows)}{' '}
        {t`In large language models single features are many times larger than the rest, some of
          them thousands of times. A format with few bits and one shared scale then has hardly any
          bits left for the other features. This makes such models hard to quantize.`}
      </p>
      <PromptList />
      <FeatureMap rows={rows} />
      <Advanced heading title={t`What γ has learned`}>
        <p>
          {t`Every γ starts at 1, the dashed line.`} {gammaWords(gammas)}{' '}
          {t`A sublayer reads less of a feature whose γ is small. But its effect also depends on the weights after γ, so this is a hint, not a proof.`}
        </p>
        <GammaDots gammas={gammas} />
      </Advanced>
      <h3>{t`Leave a layer out`}</h3>
      <Skipping prompt={prompt} reading={reading} />
      <p>
        <Trans>
          <ChapterLink to="lab">The lab</ChapterLink> makes such measurements on stacks of every
          kind.
        </Trans>
      </p>
    </>
  );
}

function Growth({ reading }: { reading: PromptReading }) {
  const { stream, branch } = reading;
  const share = shares(reading).map((part) => 100 * part);
  const places = stream.map((_, i) => i / 2);
  const every = (start: 0 | 1) => share.map((v, i) => (i % 2 === start ? v : undefined));
  return (
    <>
      <p>
        {t`In a pre-norm stack no norm stands in the stream: each sublayer adds to it, and what is added may
          also cancel a part of it.`}{' '}
        {growthWords(reading)}{' '}
        <Trans>
          The larger the stream, the less a branch of a given size turns it:{' '}
          <ChapterLink to="placement">the price of pre-norm</ChapterLink>.
        </Trans>{' '}
        {priceWords(reading)}
      </p>
      <div class="charts">
        <LineChart
          name={t`Size of the stream and of its branches`}
          xLabel={t`layer (½: after its attention)`}
          yLabel="RMS"
          x={places}
          curves={[
            { name: t`Stream`, colour: 'var(--stream)', values: stream },
            { name: t`Branch`, colour: 'var(--branch)', values: branch },
          ]}
          atLeast={[0, 0]}
          height={240}
        />
        <LineChart
          name={t`Each branch, as a share of the stream`}
          xLabel={t`layer (½: after its attention)`}
          yLabel="%"
          x={places}
          curves={[
            { name: ATTENTION.name, colour: ATTENTION.colour, values: every(0) },
            { name: FEED_FORWARD.name, colour: FEED_FORWARD.colour, dash: '6 4', values: every(1) },
          ]}
          logarithmic
          height={240}
        />
      </div>
    </>
  );
}
