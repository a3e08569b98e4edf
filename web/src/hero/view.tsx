// The first seconds on the page: a sentence goes up a real stack. The reader sees signal and
// gradient with and without Add and Norm.

import type { ComponentChildren } from 'preact';
import { useEffect, useMemo } from 'preact/hooks';
import { ready } from '../kernels/current';
import type { Measurement } from '../kernels/kernels';
import { t, Trans } from '../language/text';
import type { Item } from '../state/store';
import { Failure } from '../ui/controls';
import { FIRST_WEIGHTS, NORM_NAMES } from '../ui/names';
import { fixedNumber, roundNumber } from '../ui/numbers';
import { DataTable, numberOrBlank, showNumbers } from '../ui/table';
import { byLayer } from './by-layer';
import { Canvas } from './canvas';
import { problem, show, shown } from './measured';
import { outcome } from './outcome';
import { ownColour, pictureOf } from './picture';
import { OPTIONS, SENTENCE } from './stack';
import { state } from './state';
import './style.css';

export function Hero({ title, introduction }: { title: string; introduction: ComponentChildren }) {
  const [add, norm] = [state.add.value, state.norm.value];
  useEffect(() => void show({ add, norm }), [add, norm]);
  const tokens = shown.value?.tokens;
  const measured = useMemo(() => tokens && byLayer(tokens), [tokens]);
  const picture = useMemo(() => tokens && pictureOf(tokens), [tokens]);
  const words = measured && outcome(measured);
  return (
    <header class={`hero ${showNumbers.value ? 'numbers-shown' : ''}`}>
      <div class="hero-head">
        <div class="hero-words">
          <h1>{title}</h1>
          <p>{introduction}</p>
        </div>
        <div class="hero-switches" role="group" aria-label={t`Parts of the stack`}>
          <span class="hero-invitation">{t`Switch one off:`}</span>
          <Switch label={t`Add`} formulas={['x + F', t`F alone`]} item={state.add} />
          <Switch
            label={t`Norm`}
            formulas={[NORM_NAMES[OPTIONS.norm], t`no norm`]}
            item={state.norm}
          />
        </div>
      </div>
      <p class="hero-outcome" role="status">
        {words && <strong>{words.verdict}</strong>}{' '}
        {words
          ? words.reason
          : t`A sentence goes forward and backward through ${OPTIONS.layers}
          layers …`}
      </p>
      <Failure text={ready.value ? problem.value : ''} />
      <Place of={OPTIONS.layers} measured={measured} />
      <Canvas name={NAME} picture={picture} />
      <Sentence />
      <Place of={0} measured={measured} />
      <p class="hero-hint hero-steady">
        {SETTINGS.map(([a, n]) => {
          const isShown = a === add && n === norm;
          return (
            <span key={`${a} ${n}`} aria-hidden={!isShown}>
              <Hint milliseconds={tokens?.milliseconds} words={normWords(a, n)} />
            </span>
          );
        })}
      </p>
      {measured && <Numbers measured={measured} />}
    </header>
  );
}

const NAME = t`Bands run from layer 0 at the bottom to layer ${OPTIONS.layers} at the top, one for
  each byte of “${SENTENCE}”. The sentence above and the table that follows describe them.`;

/** All settings of Add and Norm. */
const SETTINGS = [
  [true, true],
  [false, true],
  [true, false],
  [false, false],
];

/** Returns a sentence about the norm's place and its effect on the stream. */
function normWords(add: boolean, norm: boolean): string {
  if (!norm) return t`The norm is off: each sublayer reads the stream as it is, of any size.`;
  return add
    ? t`The norm stands before each sublayer, as in GPT-2, so the stream itself may grow. Chapter 1
      shows the older order, with the norm after the sum.`
    : t`The norm stands before each sublayer. With Add off, the output of a sublayer is the whole
      stream.`;
}

interface HintProps {
  milliseconds: number | undefined;
  words: string; // about the norm
}

function Hint({ milliseconds, words }: HintProps) {
  const measured =
    milliseconds === undefined
      ? t`Measured here`
      : t`Measured here in ${Math.round(milliseconds)} ms`;
  return (
    <Trans>
      {{ measured }}: {{ layers: OPTIONS.layers }} layers, width {{ width: OPTIONS.width }}, these{' '}
      {{ bytes: SENTENCE.length }} bytes, one forward and backward pass with initial weights (
      {{ weights: FIRST_WEIGHTS[OPTIONS.initialization] }}, seed {{ seed: OPTIONS.seed }}).{' '}
      {{ words }} A band’s width grows with the signal’s RMS, though far more slowly. Its colour is
      the direction: tokens with a cosine of about 0.99 or more share a colour and draw together.
      “Token similarity” is the mean cosine of all pairs: 1 if all point in the same direction. The
      thin lines are the gradient on its way down.
    </Trans>
  );
}

interface SwitchProps {
  label: string;
  formulas: [on: string, off: string];
  item: Item<boolean>;
}

/** A switch as wide as the wider formula. */
function Switch({ label, formulas, item }: SwitchProps) {
  return (
    <label class="switch">
      <input
        type="checkbox"
        role="switch"
        checked={item.value}
        onChange={(event) => (item.value = event.currentTarget.checked)}
      />
      <strong>{label}</strong>{' '}
      <span class="faint hero-steady">
        {formulas.map((formula, i) => (
          <span key={formula} aria-hidden={item.value !== (i === 0)}>
            {formula}
          </span>
        ))}
      </span>
    </label>
  );
}

/** The measurements at one end of the stack. */
function Place({ of: place, measured }: { of: number; measured: Measurement | undefined }) {
  const isEnd = place === OPTIONS.layers;
  const rms = (values?: number[]) => (values ? roundNumber(values[place], 3) : '…');
  return (
    <div class="hero-place">
      <strong class="hero-layer">{isEnd ? t`layer ${place}, out` : t`layer 0, in`}</strong>
      <dl>
        <div>
          <dt class="stream">{t`signal ↑`}</dt> <dd>{rms(measured?.stream)}</dd>
        </div>
        <div>
          <dt class="gradient">{t`gradient ↓`}</dt> <dd>{rms(measured?.gradient)}</dd>
        </div>
        <div>
          <dt>{t`token similarity`}</dt>{' '}
          <dd>{measured ? fixedNumber(measured.tokenCosine[place], 2) : '…'}</dd>
        </div>
      </dl>
    </div>
  );
}

/** The sentence, with each byte below its lane. */
function Sentence() {
  const tokens = [...SENTENCE];
  return (
    <div class="hero-sentence" aria-hidden="true">
      {tokens.map((character, t) => {
        const [red, green, blue] = ownColour(t, tokens.length).map((v) => Math.round(255 * v));
        return (
          <span key={t} style={{ '--own': `rgb(${red} ${green} ${blue})` }}>
            {character === ' ' ? '␣' : character}
          </span>
        );
      })}
    </div>
  );
}

const LAYERS = [t`layer`, ...Array.from({ length: OPTIONS.layers + 1 }, (_, l) => l)];

function Numbers({ measured }: { measured: Measurement }) {
  return (
    <div class="numbers">
      <DataTable
        caption={t`What is measured, by layer`}
        columns={LAYERS}
        rows={[
          { head: t`RMS of the signal`, cells: measured.stream, data: { curve: 'stream' } },
          { head: t`RMS of the gradient`, cells: measured.gradient, data: { curve: 'gradient' } },
          {
            head: t`mean cosine of two tokens`,
            cells: measured.tokenCosine,
            data: { curve: 'cosine' },
          },
        ]}
        format={numberOrBlank}
      />
    </div>
  );
}
