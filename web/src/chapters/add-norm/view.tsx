import { WithTerms } from '../../glossary/view';
import { t, Trans } from '../../language/text';
import { presenting } from '../../present/start';
import { Button, ChapterLink, Checkbox, TextField } from '../../ui/controls';
import { Everything } from '../../ui/route';
import { Comparison } from './comparison';
import { INJECTED } from './compute';
import { Concepts } from './concepts';
import { InjectionGuess } from './injection-guess';
import { SideBySide } from './side-by-side';
import { StageA } from './stage-a';
import { StageB } from './stage-b';
import { drawValues, state } from './state';
import './style.css';
import { StartTour, Tour, TourPart } from './tour';
import { Transformer } from './transformer';

export function AddNorm() {
  return (
    <>
      <Introduction />
      <Colours />
      <h3 id="an-stage-a">{t`From x to y`}</h3>
      <div class="an-stages">
        <TourPart part="controls" name={t`Controls`}>
          <Controls />
        </TourPart>
        <div class="an-stage-a" role="group" aria-label={t`Stage A`} tabIndex={-1}>
          <h4>{t`Stage A: split and add`}</h4>
          <StageA />
        </div>
        <div class="an-stage-b">
          <h4>{t`Stage B: normalize`}</h4>
          <StageB />
        </div>
      </div>
      <p>{t`Drag a bar of x or F(x) (on a touch screen, drag its end), or move it with the arrow
        keys. F(x) stands for the output of any sublayer: here it is set by hand, so it does not
        depend on x. Inject Instability
        multiplies F(x) by ${INJECTED}: its bars burst out of their frame, and their labels show the
        values.`}</p>
      <Everything>
        <details>
          <summary>{t`Type the values`}</summary>
          <TextField label="x" item={state.x} />
          <TextField label="F(x)" item={state.branch} hint={t`Five numbers from −1 to 1.`} />
        </details>
      </Everything>
      <h3>{t`Is x̂ the same after F × 10?`}</h3>
      <InjectionGuess />
      <TourPart part="comparison" name={t`x̂ compared`}>
        <Comparison />
      </TourPart>
      <Everything>
        <h3>{t`One x, one sublayer, three arrangements`}</h3>
        <p>{t`So far F(x) was set by hand. Here F is a small feed-forward network that reads only
        features 1 to 3 of x: its weights for features 4 and 5 are 0. The outlines show x′, which
        differs from x only in these two features. Without a residual x and x′ give the same result:
        what F does not read is lost. With a residual it is kept, wherever the norm stands. Drag a
        bar of x.`}</p>
        <SideBySide />
        <p>
          <Trans>
            In post-norm the result is normalized: its mean is 0, its deviation 1. In pre-norm F
            reads a normalized vector, and the result is the sum itself, of any size.{' '}
            <ChapterLink to="placement">Where the norm goes</ChapterLink> shows what follows from
            this in a stack.
          </Trans>
        </p>
      </Everything>
      <h3>{t`Key ideas`}</h3>
      <Concepts />
      <Tour />
    </>
  );
}

function Introduction() {
  // A presentation shows stage A on a screen of its own.
  const open = presenting.value
    ? undefined
    : () => document.getElementById('an-stage-a')!.scrollIntoView();
  return (
    <div class="an-introduction">
      <TourPart part="picture" name={t`The Transformer`}>
        <Transformer onOpen={open} />
        <p class="an-legend">
          <span class="an-swatch" aria-hidden="true" />{' '}
          <Trans>
            This chapter explains {{ boxes: open ? <BoxesLink open={open} /> : t`these boxes` }}
          </Trans>
        </p>
      </TourPart>
      <div>
        <p>
          <WithTerms
            text={t`In a Transformer each token, a piece of text, is a vector of numbers: its
              features. Two kinds of sublayer change it alternately: attention and feed-forward
              networks (FFN). Add & Norm is wrapped around each sublayer. It preserves the sublayer’s
              input and keeps the numbers in range.`}
          />
        </p>
        <ul>
          <li>
            <Trans>
              <strong>The highway</strong>: the path past the sublayer. It carries x unchanged, and
              the gradient back.
            </Trans>
          </li>
          <li>
            <Trans>
              <strong>The diversion</strong>: the path through the sublayer, which only computes a
              change, F(x).
            </Trans>
          </li>
          <li>
            <Trans>
              <strong>The merge</strong>: Add. s = x + F(x), number by number.
            </Trans>
          </li>
          <li>
            <Trans>
              <strong>The stabilizer</strong>: Norm. Each addition can make the numbers larger.
              LayerNorm subtracts the mean of s and divides by its standard deviation.
            </Trans>
          </li>
        </ul>
        <StartTour />
      </div>
    </div>
  );
}

function BoxesLink({ open }: { open(): void }) {
  return (
    <a
      href="#an-stage-a"
      onClick={(event) => {
        event.preventDefault();
        open();
      }}
    >
      {t`these boxes`}
    </a>
  );
}

const COLOURS = {
  stream: t`stream, x`,
  branch: t`F(x), s in B1`,
  sum: t`sum, s`,
  normalized: t`normalized, x̂`,
  output: t`output, y`,
};

/** The meaning of the colours in the figures. */
function Colours() {
  return (
    <p class="an-colours">
      {t`Colours:`}
      {Object.entries(COLOURS).map(([name, words]) => (
        <span key={name}>
          <span class="an-swatch" style={{ background: `var(--${name})` }} aria-hidden="true" />{' '}
          {words}
        </span>
      ))}
    </p>
  );
}

function Controls() {
  const unstable = state.unstable.value;
  return (
    <div class="controls">
      <Button
        kind={unstable ? 'danger' : 'plain'}
        onClick={() => (state.unstable.value = !unstable)}
      >
        {unstable ? t`Reset Stability` : t`Inject Instability`}
      </Button>
      <Everything>
        <Button onClick={() => drawValues()}>{t`Draw new values`}</Button>
      </Everything>
      <Checkbox label={t`Enable Residual Connection`} item={state.residual} />
    </div>
  );
}
