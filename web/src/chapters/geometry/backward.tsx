// Backward: g at x̂, the parts of it that the norm removes, and the remainder.

import { t } from '../../language/text';
import { Figure } from '../../ui/figure';
import { type Gradient, gradientOf, withoutRounding } from '../../kernels/gradient';
import { Button, TextField } from '../../ui/controls';
import { NORM_NAMES, TOKEN_NORMS, type TokenNorm } from '../../ui/names';
import { DataTable, Rounded } from '../../ui/table';
import { dot, length, sum, withoutNoise } from '../../ui/vectors';
import { currentSpace, heightOf, Range, WIDTH } from './forward';
import { glide } from '../../ui/glide';
import { PointHandle, ViewHandle } from './handles';
import { Arrow, Axes, Name, Taken, Tangent, Tip } from './marks';
import { add, cross, ONES, type Space, tangentDisc, times, type Vector } from './space';
import { LIMIT, state } from './state';
import { gradientWords } from './words';
import './style.css';

const currentGradient = (kind: TokenNorm) => gradientOf(kind, state.x.value, 1, state.g.value);

export function BackwardInSpace() {
  const gradients = TOKEN_NORMS.map((kind) => ({ kind, gradient: currentGradient(kind) }));
  const tips = gradients.map(({ gradient: { normalized, g } }) => add(normalized, g));
  const spaceFor = (width: number) => currentSpace(width, tips);
  return (
    <>
      <Controls normalized={gradients[0].gradient.normalized} />
      <div class="charts">
        {gradients.map(({ kind, gradient }) => (
          <BackwardFigure key={kind} {...{ kind, gradient, spaceFor }} />
        ))}
      </div>
      <Numbers gradients={gradients.map(({ gradient }) => gradient)} />
    </>
  );
}

function Controls({ normalized }: { normalized: Vector }) {
  const along = (direction: Vector) => () => {
    const size = Math.max(...direction.map(Math.abs)) || 1;
    glide(state.g, times(direction, Math.min(1, LIMIT / size)));
  };
  return (
    <div class="controls geo-fields">
      <TextField label="g" item={state.g} format={written} />
      <div class="buttons" role="group" aria-label={t`Examples`}>
        <Button onClick={along(ONES)}>{t`g along 1`}</Button>
        <Button onClick={along(normalized)}>{t`g along x̂`}</Button>
        <Button onClick={along(times(cross(ONES, normalized), 1 / length(ONES)))}>
          {t`g along the circle`}
        </Button>
      </div>
    </div>
  );
}

/** A vector in the format of a text field. */
export function written(values: readonly number[]): string {
  return values.map((v) => Number(v.toFixed(4))).join(', ');
}

/** The gradient as the tables show it: without rounding errors. */
function shown(gradient: Gradient): Gradient {
  const { g, alongOnes, alongNormalized, remainder, dx, deviation } = gradient;
  return {
    ...gradient,
    alongOnes: withoutRounding(alongOnes, g),
    alongNormalized: withoutRounding(alongNormalized, g),
    remainder: withoutRounding(remainder, g),
    dx: withoutRounding(dx, g, deviation),
  };
}

interface BackwardFigureProps {
  kind: TokenNorm;
  gradient: Gradient;
  spaceFor(width: number): Space;
}

function BackwardFigure({ kind, gradient, spaceFor }: BackwardFigureProps) {
  const name = NORM_NAMES[kind];
  const { g, alongOnes, alongNormalized, remainder, normalized, dx } = shown(gradient);
  return (
    <div>
      <Figure
        title={t`${name}, backward`}
        name={t`The gradient g at x̂ of ${name}, and its parts. The table that follows has the numbers.`}
        width={WIDTH}
        height={heightOf}
        draw={(width) => <Marks space={spaceFor(width)} kind={kind} gradient={gradient} />}
        handles={(width) => (
          <>
            <ViewHandle
              name={t`View of ${name}, backward`}
              width={width}
              height={heightOf(width)}
            />
            <PointHandle
              space={spaceFor(width)}
              name={t`g in ${name}`}
              item={state.g}
              from={normalized}
              colour="var(--gradient)"
            />
          </>
        )}
        caption={t`The gradient of ${name} in parts`}
        rows={[
          { name: 'x̂', id: `${kind}-at`, values: normalized },
          { name: 'g', id: `${kind}-g`, values: g },
          { name: t`along 1`, id: `${kind}-along-1`, values: alongOnes },
          { name: t`along x̂`, id: `${kind}-along-normalized`, values: alongNormalized },
          { name: t`remains: σ · dx`, id: `${kind}-remainder`, values: remainder },
          { name: 'dx', id: `${kind}-dx`, values: dx },
        ]}
      />
      <p data-words={`${kind}-backward`}>{gradientWords(kind, gradient)}</p>
    </div>
  );
}

interface MarksProps {
  space: Space;
  kind: TokenNorm;
  gradient: Gradient;
}

/** g as the sum of its parts, drawn from x̂. */
function Marks({ space, kind, gradient }: MarksProps) {
  const { g, alongNormalized, normalized } = gradient;
  const remainder = withoutRounding(gradient.remainder, g);
  const ends = [add(normalized, remainder)];
  ends.push(add(ends[0], alongNormalized));
  const top = add(normalized, g);
  const colour = 'var(--gradient)';
  return (
    <>
      <Axes space={space} />
      <Range space={space} kind={kind} colour="var(--normalized)" faint />
      <Tangent space={space} points={tangentDisc(kind, normalized)} colour={colour} />
      <Arrow space={space} to={normalized} colour="var(--normalized)" />
      <Name
        space={space}
        at={times(normalized, 0.5)}
        clear={top}
        class="strong"
        colour="var(--normalized)"
      >
        x̂
      </Name>
      <Taken space={space} from={ends[0]} to={ends[1]} colour={colour}>
        {t`along x̂`}
      </Taken>
      {kind === 'layer' && (
        <Taken space={space} from={ends[1]} to={top} colour={colour}>
          {t`along 1`}
        </Taken>
      )}
      <Tip space={space} from={normalized} to={top} colour={colour} width={2}>
        g
      </Tip>
      {remainder.some((v) => v !== 0) && (
        <>
          <Arrow space={space} from={normalized} to={ends[0]} colour={colour} width={4} />
          <Name
            space={space}
            from={normalized}
            at={ends[0]}
            clear={top}
            class="strong"
            colour={colour}
          >
            σ · dx
          </Name>
        </>
      )}
    </>
  );
}

/** A table of g and dx along the two directions that forward projects
 * out. dx has no part along them. */
export function Numbers({ gradients }: { gradients: Gradient[] }) {
  const row = (id: string, head: string, of: (gradient: Gradient) => number) => ({
    head,
    cells: gradients.map((gradient) => <Rounded value={of(shown(gradient))} />),
    data: { backward: id },
  });
  return (
    <div class="geo-table">
      <DataTable
        caption={t`What is left along the two directions`}
        visible
        columns={['', ...TOKEN_NORMS.map((kind) => NORM_NAMES[kind])]}
        rows={[
          row('g-ones', 'g · 1', ({ g }) => withoutNoise(sum(g), length(g))),
          row('dx-ones', 'dx · 1', ({ dx }) => withoutNoise(sum(dx), length(dx))),
          row('g-normalized', 'g · x̂', ({ g, normalized }) =>
            withoutNoise(dot(g, normalized), length(g)),
          ),
          row('dx-normalized', 'dx · x̂', ({ dx, normalized }) =>
            withoutNoise(dot(dx, normalized), length(dx)),
          ),
          row('length', '|dx|', ({ dx }) => length(dx)),
        ]}
      />
    </div>
  );
}
