// The chapter “Backward”: the parts of a gradient that the norm removes, and the factor 1/σ.

import type { ComponentChildren } from 'preact';
import { t, Trans } from '../../language/text';
import { tidy } from '../../state/fields';
import { assign } from '../../state/store';
import { Advanced } from '../../ui/advanced';
import { Button, ChapterLink, Choice, Problem, Slider } from '../../ui/controls';
import { Formula } from '../../ui/formula';
import { GuessCard } from '../../ui/guess';
import { NORM_NAMES, type TokenNorm } from '../../ui/names';
import { percent, roundNumber } from '../../ui/numbers';
import { Rounded, Statistics } from '../../ui/table';
import { texFactor, texNumber, texResult } from '../../ui/tex';
import { dot, largest, length, sum, withoutNoise } from '../../ui/vectors';
import { BackwardInSpace } from '../geometry/backward';
import { state as geometry } from '../geometry/state';
import { Parts, Through } from './figures';
import { type Gradient, gradientOf, withoutRounding } from '../../kernels/gradient';
import { FEATURES, state } from './state';

export function Backward() {
  const kind = state.norm.value;
  const factor = 10 ** state.size.value;
  const x = state.x.value.map((v) => v * factor);
  const gradient = gradientOf(kind, x, state.gamma.value, state.dy.value);
  return (
    <>
      <p>
        <Trans>
          dy is the gradient of the loss with respect to the norm’s output: how the loss changes
          with each number of y. The norm turns it into dx, the gradient with respect to its input.{' '}
          <ChapterLink to="geometry">The geometry</ChapterLink> showed which parts the norm removes.
          Here are six features and the formula. Drag the bars of x and dy.
        </Trans>
      </p>
      <div class="beside">
        <Controls gradient={gradient} />
        <LinkProblems />
        <Question />
        <div class="beside-figure">
          <Through gradient={gradient} factor={factor} />
          <p class="hint">
            {t`dy and dx have the same scale. The same dy gives the gradients of γ and β for this one
              row: dγ = dy ⊙ x̂ and dβ = dy (Show numbers, at the top, lists them).`}
          </p>
        </div>
      </div>

      <h3>{t`What is removed`}</h3>
      <p>{WHY[kind]}</p>
      <Settings />
      <Parts gradient={gradient} rms={kind === 'rms'} />
      <BackwardFormula gradient={gradient} rms={kind === 'rms'} />
      <Checks gradient={gradient} rms={kind === 'rms'} />

      <Advanced
        heading
        title={t`The backward pass removes the same two directions`}
        state={[geometry.g]}
      >
        <p>
          <Trans>
            With three features the parts can be drawn, for the x of{' '}
            <ChapterLink to="geometry">The geometry of LayerNorm</ChapterLink>. Moving x along 1
            leaves x̂ unchanged. Moving x along x̂ only makes x − μ longer, so x̂ stays the same too,
            up to ε. The loss cannot depend on either move, so dx has no part along them: the
            backward pass removes both parts from g. Drag g.
          </Trans>
        </p>
        <BackwardInSpace />
      </Advanced>

      <h3>{t`With a residual`}</h3>
      <p>
        <Trans>
          In post-norm, y = Norm(x + F(x)): the gradient of the stream itself passes through the
          norm at every layer. In pre-norm, y = x + F(Norm(x)): the gradient goes past the norm
          unchanged, and the gradient of the branch is added.{' '}
          <ChapterLink to="highway">The highway</ChapterLink> and{' '}
          <ChapterLink to="placement">Where the norm goes</ChapterLink> measured the effect on whole
          stacks.
        </Trans>
      </p>
    </>
  );
}

const WHY: Record<TokenNorm, string> = {
  layer: t`A shift of x adds the same number to each feature: x moves along 1 = (1, …, 1), and x̂
    stays the same. Scaling x does not change x̂ either. So the loss depends on neither, and its
    gradient has no part in these directions. The norm removes the mean of the gradient, which is
    its part along 1 (centring). It also removes the part along x̂ (scaling). The remainder is
    divided by σ.`,
  rms: t`Scaling x does not change x̂. So the loss does not depend on the scale, and its gradient
    has no part in that direction: the part along x̂ is removed. RMSNorm subtracts no mean, so the
    mean of the gradient stays. The remainder is divided by σ.`,
};

const ONES: readonly number[] = Array(FEATURES).fill(1);

/** A question about LayerNorm. The answer sets the figure to LayerNorm. */
function Question() {
  const { dx, g, deviation } = gradientOf('layer', state.x.value, state.gamma.value, ONES);
  const most = largest(withoutRounding(dx, g, deviation));
  return (
    <GuessCard
      question={t`LayerNorm gets dy = (1, …, 1): the loss grows equally with every number of y. What
        is dx?`}
      answers={{ a: t`(1, …, 1) as well`, b: '(1, …, 1) ÷ σ', c: t`Zero` }}
      right="c"
      item={state.guess}
      onAnswer={() => assign(state, { norm: 'layer', dy: ONES })}
      reply={t`The largest |dx| is ${roundNumber(most, 3)}. With this dy the loss changes with the
        sum of y. LayerNorm subtracts the mean, so the numbers of x̂ add up to 0 for every x. No
        change of x changes that sum or the loss, so the gradient is zero.`}
    />
  );
}

/** Errors in the link's x and dy, which have no text fields of their own. */
function LinkProblems() {
  return (['x', 'dy'] as const).map((name) => {
    const text = state[name].problem.value;
    return (
      text && (
        <p key={name}>
          <Problem text={`${name} ${text}.`} />
        </p>
      )
    );
  });
}

function Controls({ gradient }: { gradient: Gradient }) {
  const random = () => Math.round(40 * Math.random() - 20) / 10;
  return (
    <>
      <p>
        <Trans>
          Two directions are special. Moving x along <b>1</b> = (1, …, 1) shifts it: all features
          grow by the same amount. Moving x along x̂ scales x minus its mean. Try a dy that points
          along one of them.
        </Trans>
      </p>
      <div class="buttons" role="group" aria-label={t`Examples`}>
        <Button onClick={() => (state.dy.value = ONES)}>dy = (1, …, 1)</Button>
        <Button onClick={() => (state.dy.value = gradient.normalized.map(tidy))}>dy = x̂</Button>
        <Button
          onClick={() => (state.dy.value = [0, 0, 1, 0, 0, 0])}
        >{t`dy of one feature`}</Button>
        <Button onClick={() => (state.dy.value = Array.from({ length: FEATURES }, random))}>
          {t`Random dy`}
        </Button>
      </div>
      <Settings />
    </>
  );
}

/** The settings, repeated at both figures because these are a screen apart. */
function Settings() {
  return (
    <div class="controls">
      <Choice label={t`Norm`} item={state.norm} labels={NORM_NAMES} />
      <Slider
        label={t`Size of x`}
        item={state.size}
        format={(power) => `× ${roundNumber(10 ** power, 3)}`}
      />
      <Slider label={t`Scale γ`} item={state.gamma} />
    </div>
  );
}

interface PartProps {
  gradient: Gradient;
  rms: boolean;
}

/** The formula in symbols, and with the numbers of feature 1. */
function BackwardFormula({ gradient, rms }: PartProps) {
  const { g, alongOnes, deviation } = gradient;
  const alongNormalized = withoutRounding(gradient.alongNormalized, g);
  const dx = withoutRounding(gradient.dx, g, deviation);
  const mean = rms ? '' : ' - \\mathrm{mean}(g)';
  const meanNumber = rms ? '' : ` - ${texFactor(alongOnes[0], 4)}`;
  const inner = `${texNumber(g[0], 4)}${meanNumber} - ${texFactor(alongNormalized[0], 4)}`;
  return (
    <div class="bw-formulas">
      <Formula
        block
        tex={`dx = \\frac{1}{\\sigma}\\bigl(g${mean} - \\hat x \\,
          \\mathrm{mean}(g \\odot \\hat x)\\bigr)`}
      />
      <Formula block tex={`g = \\gamma \\odot dy`} />
      <Formula
        block
        tex={`dx_1 = \\frac{${inner}}{${texNumber(deviation, 4)}} ${texResult(dx[0], 4)}`}
      />
      <p class="hint">{t`Xu et al. 2019, equations 3 to 5.`}</p>
    </div>
  );
}

function Checks({ gradient, rms }: PartProps) {
  const { g, alongOnes, alongNormalized, remainder, normalized, deviation } = gradient;
  const dx = withoutRounding(gradient.dx, g, deviation);
  const sumOf = (terms: number[]) => withoutNoise(sum(terms), length(dx));
  const whole = dot(g, g);
  const share = (part: readonly number[]) => {
    const kept = withoutRounding(part, g);
    return whole === 0 ? t`undefined` : percent(dot(kept, kept) / whole);
  };
  const rows: [id: string, name: string, value: ComponentChildren][] = [
    ['sum', 'Σ dx', <Rounded value={sumOf(dx)} />],
    ['sum-normalized', 'Σ dx ⊙ x̂', <Rounded value={sumOf(dx.map((v, i) => v * normalized[i]))} />],
    ['share-mean', t`of |g|², along 1`, share(alongOnes)],
    ['share-normalized', t`of |g|², along x̂`, share(alongNormalized)],
    ['share-remainder', t`of |g|², remainder`, share(remainder)],
    ['deviation', 'σ', <Rounded value={deviation} />],
    ['inverse', '1/σ', <Rounded value={1 / deviation} />],
    ['length-g', '|g|', <Rounded value={length(g)} />],
    ['length-dx', '|dx|', <Rounded value={length(dx)} />],
  ];
  return (
    <>
      <p data-verdict="gradient">{verdict(gradient, rms)}</p>
      <p>
        {rms
          ? t`dx is orthogonal to x̂ up to ε; its sum need not be 0:`
          : t`dx is orthogonal to 1 up to rounding, and to x̂ up to ε:`}
      </p>
      <Statistics rows={rms ? rows.filter(([id]) => id !== 'share-mean') : rows} />
    </>
  );
}

/** One or two sentences about this gradient. */
function verdict({ g, remainder, deviation, dx, normalized }: Gradient, rms: boolean): string {
  if (length(g) === 0) return t`dy is zero, so dx is zero.`;
  const kept = dot(remainder, remainder) / dot(g, g);
  const flat = normalized.every((v) => v === 0);
  const [share, sigma] = [percent(1 - kept), roundNumber(deviation, 3)];
  const removed =
    kept < 1e-4
      ? t`Nearly all of this gradient lies in the removed directions, so hardly anything remains.`
      : deviation > 1
        ? t`The norm removes ${share} of |g|². Dividing by σ = ${sigma} then makes the rest
          smaller.`
        : t`The norm removes ${share} of |g|². Dividing by σ = ${sigma} then makes the rest
          larger.`;
  const factor = roundNumber(length(dx) / length(g), 3);
  const words = [removed, t`In all, |dx| is ${factor} times |g|.`];
  if (flat) {
    words.push(
      rms
        ? t`Here x is almost 0: only ε keeps σ above 0, and 1/σ is at its largest.`
        : t`Here all features of x are almost equal: only ε keeps σ above 0, and 1/σ is at its
          largest.`,
    );
  }
  return words.join(' ');
}
