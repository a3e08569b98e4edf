// Forward: the steps from x to y in LayerNorm, and in RMSNorm for comparison.

import { t } from '../../language/text';
import { Figure } from '../../ui/figure';
import { NORM_NAMES, TOKEN_NORMS, type TokenNorm } from '../../ui/names';
import { length } from '../../ui/vectors';
import { PointHandle, ViewHandle } from './handles';
import { Arrow, Axes, CurveLine, Name, Surface, Taken, Tip } from './marks';
import { type Moves, movesOf } from './moves';
import {
  type Affine,
  layerCurve,
  meridians,
  outline,
  RADIUS,
  type Space,
  spaceOf,
  UNCHANGED,
  type Vector,
} from './space';
import { state, type Step, STEPS } from './state';
import { stepWords } from './words';

export const WIDTH = 640;
export const heightOf = (width: number) => Math.min(380, Math.round(0.8 * width));

const REACH = 2.45;
const EDGE = 28; // pixels between a handle and the edge, for the handle's name

/** The space of the drawings. It contains the given points and every y, so that the picture does
 * not change while x moves. */
export function currentSpace(width: number, points: readonly Vector[] = [state.x.value]): Space {
  const height = heightOf(width);
  const half = Math.min(width, height) / 2;
  const ofOutputs = state.gamma.value.map((v, i) => RADIUS * v + Math.abs(state.beta.value[i]));
  const ofPoints = points.map((point) => (length(point) * half) / (half - EDGE));
  const view = { turn: state.turn.value, tilt: state.tilt.value };
  return spaceOf(view, width, height, Math.max(REACH, ...ofOutputs, ...ofPoints));
}

export function currentMoves(kind: TokenNorm): Moves {
  return movesOf(kind, state.x.value, state.gamma.value, state.beta.value);
}

export function Forward() {
  return (
    <div class="charts">
      {TOKEN_NORMS.map((kind) => (
        <ForwardFigure key={kind} kind={kind} moves={currentMoves(kind)} />
      ))}
    </div>
  );
}

function ForwardFigure({ kind, moves }: { kind: TokenNorm; moves: Moves }) {
  const name = NORM_NAMES[kind];
  const last = state.step.value;
  const rows = STEPS.map((step) => ({
    name: NAMES[step],
    id: `${kind}-${step}`,
    values: moves[step],
  }));
  return (
    <div>
      <Figure
        title={name}
        name={t`The steps of ${name} in space. The table that follows has the numbers.`}
        width={WIDTH}
        height={heightOf}
        draw={(width) => (
          <Marks space={currentSpace(width)} kind={kind} moves={moves} last={last} />
        )}
        handles={(width) => (
          <>
            <ViewHandle name={t`View of ${name}`} width={width} height={heightOf(width)} />
            <PointHandle
              space={currentSpace(width)}
              name={t`x in ${name}`}
              item={state.x}
              colour="var(--stream)"
            />
          </>
        )}
        caption={t`${name}, step by step`}
        rows={rows}
      />
      <p data-words={kind}>{stepWords(kind, moves, last)}</p>
    </div>
  );
}

export const NAMES: Record<Step, string> = {
  x: 'x',
  centred: 'x − μ',
  normalized: 'x̂',
  scaled: 'γ ⊙ x̂',
  output: 'y',
};

interface MarksProps {
  space: Space;
  kind: TokenNorm;
  moves: Moves;
  last: Step;
}

function Marks({ space, kind, moves, last }: MarksProps) {
  const has = (step: Step) => STEPS.indexOf(step) <= STEPS.indexOf(last);
  const layer = kind === 'layer';
  const { x, centred, normalized, output } = moves;
  const stretched = {
    gamma: state.gamma.value,
    beta: has('output') ? state.beta.value : UNCHANGED.beta,
  };
  return (
    <>
      {layer && has('centred') && (
        <Surface
          space={space}
          points={layerCurve(space).map(({ at }) => at)}
          colour="var(--normalized)"
        />
      )}
      <Axes space={space} />
      {has('normalized') && (
        <Range {...{ space, kind }} colour="var(--normalized)" faint={has('scaled')} />
      )}
      {has('scaled') && <Range {...{ space, kind }} affine={stretched} colour="var(--output)" />}
      {layer && has('centred') && (
        <>
          <Taken space={space} from={x} to={centred} colour="var(--text)">
            {has('scaled') ? undefined : 'μ · 1'}
          </Taken>
          <Arrow space={space} to={centred} colour="var(--stream)" width={1.5} />
          {!has('scaled') && (
            <Name space={space} at={centred} clear={x}>
              x − μ
            </Name>
          )}
        </>
      )}
      <Tip space={space} to={x} colour="var(--stream)" width={has('centred') && layer ? 1.5 : 3}>
        x
      </Tip>
      {has('normalized') && (
        <>
          <Arrow space={space} to={normalized} colour="var(--normalized)" width={3.5} />
          <Name space={space} at={normalized} class="strong" colour="var(--normalized)">
            x̂
          </Name>
        </>
      )}
      {has('scaled') && (
        <Arrow space={space} from={normalized} to={moves.scaled} colour="var(--output)" />
      )}
      {has('output') && (
        <Arrow space={space} from={moves.scaled} to={output} colour="var(--output)" />
      )}
      {has('scaled') && (
        <Name
          space={space}
          from={normalized}
          at={moves[last]}
          class="strong"
          colour="var(--output)"
        >
          {NAMES[last]}
        </Name>
      )}
    </>
  );
}

interface RangeProps {
  space: Space;
  kind: TokenNorm;
  affine?: Affine;
  colour: string;
  faint?: boolean;
}

/** The set of all results of this norm, for any x. */
export function Range({ space, kind, affine = UNCHANGED, colour, faint }: RangeProps) {
  if (kind === 'layer')
    return <CurveLine space={space} curve={layerCurve(space, affine)} colour={colour} />;
  const edge = outline(space, affine);
  return (
    <>
      <Surface space={space} points={edge} colour={colour} />
      <CurveLine space={space} curve={edge.map((at) => ({ at, front: true }))} colour={colour} />
      {!faint &&
        meridians(space, affine).map((curve, i) => (
          <g key={i} class="geo-meridian">
            <CurveLine space={space} curve={curve} colour={colour} />
          </g>
        ))}
    </>
  );
}
