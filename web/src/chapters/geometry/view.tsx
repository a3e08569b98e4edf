// The chapter “The geometry of LayerNorm”: with three features, a token is a point in space.

import type { ComponentChildren } from 'preact';
import { normalizeToken } from '../../kernels/token';
import { t, Trans } from '../../language/text';
import { Advanced } from '../../ui/advanced';
import { Button, ChapterLink, Choice, Presets, TextField } from '../../ui/controls';
import { Formula } from '../../ui/formula';
import { NORM_NAMES, TOKEN_NORMS, type TokenNorm } from '../../ui/names';
import { alignedNumbers, listed, plainNumber } from '../../ui/numbers';
import { DataTable, Rounded } from '../../ui/table';
import { length, sum, withoutNoise } from '../../ui/vectors';
import { glide } from '../../ui/glide';
import { written } from './backward';
import { currentMoves, Forward } from './forward';
import { Guesses } from './guesses';
import { type Moves, near } from './moves';
import { state } from './state';
import { nearWords } from './words';
import './style.css';

export function Geometry() {
  return (
    <>
      <p>
        <Trans>
          With three features a token is a point in space, and each step of the norm is a visible
          move. The dashed line is the direction 1 = (1, 1, 1), along which all features are equal.
          Drag x, or type it; drag the background to turn the view. A model has n features, often
          hundreds; there √n replaces the √3 below.
        </Trans>
      </p>
      <div class="beside">
        <Controls />
        <div class="beside-figure">
          <Forward />
        </div>
        <p>
          <Trans>First guess, then see:</Trans>
        </p>
        <div class="charts">
          <Guesses />
        </div>
        <Numbers />
      </div>

      <Advanced heading title={t`Near the dashed line`}>
        <NearTheLine />
      </Advanced>
      <p>
        <Trans>
          <ChapterLink to="backward">Backward</ChapterLink> comes back to this picture: the gradient
          loses the same directions. The next chapter,{' '}
          <ChapterLink to="highway">the highway</ChapterLink>, shows why a stack of sublayers needs
          a norm at all.
        </Trans>
      </p>
    </>
  );
}

const STEP_LABELS = {
  x: 'x',
  centred: '− μ',
  normalized: '÷ σ',
  scaled: '· γ',
  output: '+ β',
};

const VIEWS = [
  { name: t`At an angle`, turn: state.turn.field.initial, tilt: state.tilt.field.initial },
  { name: t`Along 1`, turn: 45, tilt: 35 },
  { name: t`From the side`, turn: -45, tilt: 0 },
];

function Controls() {
  const last = state.step.value;
  return (
    <>
      <div class="controls geo-fields">
        <Choice label={t`Steps drawn, up to`} item={state.step} labels={STEP_LABELS} />
        <TextField label="x" item={state.x} format={written} />
        {(last === 'scaled' || last === 'output') && (
          <TextField label="γ" item={state.gamma} format={written} />
        )}
        {last === 'output' && <TextField label="β" item={state.beta} format={written} />}
      </div>
      <Presets label={t`View`} state={state} presets={VIEWS} />
    </>
  );
}

export function Numbers() {
  const moves = TOKEN_NORMS.map(currentMoves);
  const row = (id: string, head: string, value: (m: Moves) => number | undefined) => ({
    head,
    cells: moves.map((m) => numberOrDash(value(m))),
    data: { forward: id },
  });
  const output = {
    head: 'y',
    cells: moves.map((m) => listed(alignedNumbers(m.output))),
    data: { forward: 'output' },
  };
  return (
    <div class="geo-table">
      <DataTable
        caption={t`In numbers`}
        visible
        columns={['', ...TOKEN_NORMS.map((kind) => NORM_NAMES[kind])]}
        rows={[
          row('mean', 'μ', ({ kind, mean }) => (kind === 'layer' ? mean : undefined)),
          row('deviation', 'σ', ({ deviation }) => deviation),
          row('sum', 'x̂ · 1', ({ normalized }) => withoutNoise(sum(normalized), 1)),
          row('length', '|x̂|', ({ normalized }) => length(normalized)),
          ...(state.step.value === 'output' ? [output] : []),
        ]}
      />
    </div>
  );
}

function numberOrDash(value: number | undefined): ComponentChildren {
  return value === undefined ? '–' : <Rounded value={value} />;
}

const DISTANCES = [1, 0.1, 0.01, 0.001, 1e-4, 0];

function NearTheLine() {
  const x = state.x.value;
  const cells = (kind: TokenNorm) =>
    DISTANCES.map((distance) =>
      length(normalizeToken({ kind }, near(kind, x, distance)).normalized),
    );
  return (
    <>
      <p>
        <Trans>
          On the dashed line, x − μ is 0 and has no direction: without ε the norm would divide 0 by
          0. Close to the line, a tiny change of x would move x̂ across the whole circle. With ε =
          10⁻⁵ under the square root, x̂ leaves the circle there and goes to 0:
        </Trans>
      </p>
      <Formula
        block
        tex={String.raw`|\hat x|^2 = 3\,\frac{\sigma_0^2}{\sigma_0^2 + \varepsilon},
        \qquad \sigma_0^2 = \tfrac13 |x - \mu|^2`}
      />
      <div class="geo-table">
        <DataTable
          caption={t`|x̂| by distance: in LayerNorm from the dashed line, in RMSNorm from 0`}
          visible
          columns={[t`distance`, ...DISTANCES.map((distance) => plainNumber(distance))]}
          rows={TOKEN_NORMS.map((kind) => ({
            head: NORM_NAMES[kind],
            cells: cells(kind),
            data: { near: kind },
          }))}
          format={(value: number) => <Rounded value={value} />}
        />
      </div>
      <div class="buttons">
        <Button onClick={() => glide(state.x, near('layer', x, 0.002))}>
          {t`Move x to 0.002 from the line`}
        </Button>
        <Button onClick={() => glide(state.x, state.x.field.initial)}>{t`Move x back`}</Button>
      </div>
      <p data-words="near" role="status">
        {nearWords(currentMoves('layer'))}
      </p>
    </>
  );
}
