// The first seconds on the page: a sentence goes up a real stack. The reader sees signal and
// gradient with and without Add and Norm.

import type { ComponentChildren } from 'preact';
import { useEffect, useMemo, useRef } from 'preact/hooks';
import { FirstUses } from '../glossary/uses';
import { Uses, WithTerms } from '../glossary/view';
import { ready } from '../kernels/current';
import type { Measurement } from '../kernels/kernels';
import { t, Trans } from '../language/text';
import { Button, ChapterLink, Failure, TextField } from '../ui/controls';
import { Everything } from '../ui/route';
import { FIRST_WEIGHTS, NORM_NAMES } from '../ui/names';
import { DataTable, numberOrBlank, showNumbers } from '../ui/table';
import { byLayer } from './by-layer';
import { Canvas } from './canvas';
import { demonstrate, demonstrating } from './demonstration';
import { layerName, Layers, readingsOf } from './layers';
import { problem, show, shown } from './measured';
import { outcome } from './outcome';
import { ownColour, pictureOf } from './picture';
import { saveHero } from './saved';
import { bytesOf, OPTIONS } from './stack';
import { state } from './state';
import './style.css';

export function Hero({ title, introduction }: { title: string; introduction: ComponentChildren }) {
  const add = state.add.value;
  const norm = state.norm.value && !demonstrating.value;
  const sentence = state.text.value;
  useEffect(() => void show({ add, norm, sentence }), [add, norm, sentence]);
  useEffect(demonstrate, []);
  const tokens = shown.value?.tokens;
  const measured = useMemo(() => tokens && byLayer(tokens), [tokens]);
  const picture = useMemo(() => tokens && pictureOf(tokens), [tokens]);
  const words = measured && outcome(measured);
  const hero = useRef<HTMLElement>(null);
  const uses = useMemo(() => new FirstUses(), []);
  return (
    <header ref={hero} class={`hero ${showNumbers.value ? 'numbers-shown' : ''}`}>
      <div class="hero-head">
        <div class="hero-words">
          <div class="hero-title">
            <h1>{title}</h1>
            <ChapterLink class="button primary" to="add-norm">
              {t`Start here`}
            </ChapterLink>
          </div>
          <p>{introduction}</p>
        </div>
        <div class="hero-switches" role="group" aria-label={t`Parts of the stack`}>
          <span class="hero-invitation">{t`Switch one off:`}</span>
          <Switch
            label={t`Add`}
            formulas={['x + F', t`F alone`]}
            on={add}
            set={(on) => (state.add.value = on)}
          />
          <Switch
            label={t`Norm`}
            formulas={[NORM_NAMES[OPTIONS.norm], t`no norm`]}
            on={norm}
            set={(on) => (state.norm.value = on)}
            isLit={demonstrating.value}
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
      <Uses.Provider value={uses}>
        <Place of={OPTIONS.layers} measured={measured} />
      </Uses.Provider>
      <div class="hero-stage">
        <Canvas
          name={t`Bands run from layer 0 at the bottom to layer ${OPTIONS.layers} at the top, one for
            each byte of “${sentence}”. The sentence above and the table that follows describe them.`}
          picture={picture}
        />
        <Layers measured={measured} />
      </div>
      <Sentence text={sentence} />
      <Place of={0} measured={measured} />
      <div class="hero-foot">
        <p class="hero-hint">
          {t`Each byte climbs ${OPTIONS.layers} layers, and its gradient comes back down: width is
            size, colour is direction.`}
        </p>
        <TextField label={t`Your own sentence`} item={state.text} />
        <Everything>
          <Button onClick={() => void saveHero(hero.current!, words?.verdict ?? '', sentence)}>
            {t`Save this picture`}
          </Button>
        </Everything>
      </div>
      <Everything>
        <details class="hero-hint">
          <summary>{t`What is measured here`}</summary>
          <p>
            <Hint
              milliseconds={tokens?.milliseconds}
              bytes={bytesOf(sentence).length}
              words={normWords(add, norm)}
            />
          </p>
        </details>
      </Everything>
      {measured && <Numbers measured={measured} />}
    </header>
  );
}

/** Returns a sentence about the norm's place and its effect on the stream. */
function normWords(add: boolean, norm: boolean): string {
  if (!norm) return t`The norm is off: each sublayer reads the stream as it is, whatever its size.`;
  return add
    ? t`The norm stands before each sublayer, as in GPT-2, so the stream itself may grow. Chapter 1
      shows the older order, with the norm after the sum.`
    : t`The norm stands before each sublayer. With Add off, the output of a sublayer is the whole
      stream.`;
}

interface HintProps {
  milliseconds: number | undefined;
  bytes: number; // of the sentence
  words: string; // about the norm
}

function Hint({ milliseconds, bytes, words }: HintProps) {
  const measured =
    milliseconds === undefined
      ? t`Measured here`
      : t`Measured here in ${Math.round(milliseconds)} ms`;
  return (
    <Trans>
      {{ measured }}: {{ layers: OPTIONS.layers }} layers, width {{ width: OPTIONS.width }}, these{' '}
      {{ bytes }} bytes, one forward and backward pass with initial weights (
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
  on: boolean;
  set(on: boolean): void;
  isLit?: boolean;
}

/** A switch as wide as the wider formula. */
function Switch({ label, formulas, on, set, isLit = false }: SwitchProps) {
  return (
    <label class={isLit ? 'switch lit' : 'switch'}>
      <input
        type="checkbox"
        role="switch"
        checked={on}
        onChange={(event) => set(event.currentTarget.checked)}
      />
      <strong>{label}</strong>{' '}
      <span class="faint hero-steady">
        {formulas.map((formula, i) => (
          <span key={formula} aria-hidden={on !== (i === 0)}>
            {formula}
          </span>
        ))}
      </span>
    </label>
  );
}

/** The measurements at one end of the stack. */
function Place({ of: layer, measured }: { of: number; measured: Measurement | undefined }) {
  return (
    <div class="hero-place">
      <strong class="hero-layer">{layerName(layer)}</strong>
      <dl>
        {readingsOf(layer, measured).map(({ name, look, value }) => (
          <div key={name}>
            <dt class={look}>
              <WithTerms text={name} />
            </dt>{' '}
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
    </div>
  );
}

/** The sentence, with each byte below its lane. A character of several bytes spans their lanes. */
function Sentence({ text }: { text: string }) {
  const tokens = bytesOf(text).length;
  let byte = 0;
  return (
    <div class="hero-sentence" aria-hidden="true" style={{ '--tokens': tokens }}>
      {[...text].map((character) => {
        const at = byte;
        const size = bytesOf(character).length;
        byte += size;
        const [red, green, blue] = ownColour(at, tokens).map((v) => Math.round(255 * v));
        const style = { '--own': `rgb(${red} ${green} ${blue})`, gridColumn: `span ${size}` };
        return (
          <span key={at} style={style}>
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
