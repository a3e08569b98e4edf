// The five slots as switches, the named placements, the diagram and the equation.

import type { Arrangement, Placement } from '../../kernels/kernels';
import { t, Trans, translated } from '../../language/text';
import { Advanced } from '../../ui/advanced';
import { Button, Checkbox, Choice } from '../../ui/controls';
import { Formula } from '../../ui/formula';
import { NORM_NAMES } from '../../ui/names';
import { chosenArrangement, choose, equation, OWN, rowOf } from './arrangement';
import { Diagram } from './diagram';
import { factor, factorNames, FACTORS, type FactorSlot } from './factors';
import { PlacementList } from './placement-list';
import { state } from './state';

export function Switchboard({ table }: { table: Placement[] }) {
  const arrangement = chosenArrangement();
  const row = rowOf(arrangement, table);
  return (
    <>
      <div class="buttons" role="group" aria-label={t`Named placements`}>
        {table
          .filter(({ name }) => MAIN.includes(name))
          .map((p) => (
            <Button key={p.name} pressed={p === row} onClick={() => choose(p, table)}>
              {p.name}
            </Button>
          ))}
      </div>
      <div class="placement-board">
        <Diagram arrangement={arrangement} />
        <div>
          <Named arrangement={arrangement} row={row} />
          <Switches table={table} />
        </div>
      </div>
    </>
  );
}

/** The placements with a button. The list has all. */
const MAIN = ['none', 'post', 'pre', 'sandwich'];

function Named({ arrangement, row }: { arrangement: Arrangement; row: Placement | undefined }) {
  return (
    <div class="placement-named" role="status">
      <p>
        <strong data-name>{row?.name ?? OWN}</strong>
        {' · '}
        {row ? translated(row.usedBy) : t`not in the library’s table, but it runs`}
      </p>
      <Formula block tex={equation(arrangement, state.norm.value)} />
      <Terms arrangement={arrangement} />
    </div>
  );
}

// For each symbol: the condition for its use in the equation, its TeX, and its meaning.
const TERMS: [(a: Arrangement) => boolean, string, string][] = [
  [(a) => a.skip === 'admin', String.raw`\omega`, t`a learned vector, initialized from one batch`],
  [(a) => a.gain === 'rezero', String.raw`\alpha`, t`a learned number, initially 0`],
  [
    (a) => a.gain === 'layerscale',
    String.raw`\lambda`,
    t`a learned vector, initially 0.1 (1e-5 from 19 layers on, 1e-6 from 25)`,
  ],
  [(a) => a.beforeScale !== 'none', 'l', t`the layer, from 1`],
  [
    (a) =>
      [a.skip, a.initialGain].some((name) => name === 'deepnorm' || name === 'keel') ||
      a.gain === 'scaled-branch' ||
      a.gain === 'completep',
    'N',
    t`the number of layers`,
  ],
];

function anyNorm(a: Arrangement): boolean {
  return a.before || a.inside || a.after;
}

function Terms({ arrangement: a }: { arrangement: Arrangement }) {
  const norm = state.norm.value;
  const used = TERMS.filter(([isUsed]) => isUsed(a));
  return (
    <ul class="placement-terms">
      {anyNorm(a) && (
        <li>
          <Formula tex={`\\operatorname{${norm === 'layer' ? 'LN' : 'RMS'}}`} />: {NORM_NAMES[norm]}
        </li>
      )}
      {used.map(([, tex, meaning]) => (
        <li key={tex}>
          <Formula tex={tex} />: {meaning}
        </li>
      ))}
      {a.initialGain === 'deepnorm' && (
        <li>
          <Trans>
            The initial weights of F (value, output, feed-forward) are multiplied by{' '}
            <Formula tex={FACTORS.initialGain.deepnorm.tex} />.
          </Trans>
        </li>
      )}
      {a.finalNorm && <li>{t`One more norm follows the last layer.`}</li>}
    </ul>
  );
}

/** All named placements, and all switches. */
function Switches({ table }: { table: Placement[] }) {
  return (
    <Advanced
      title={t`All placements, factors, and the kind of norm`}
      state={[state.norm, state.skip, state.gain, state.scale, state.weights]}
    >
      <div class="placement-switches">
        <PlacementList table={table} />
        <fieldset class="placement-norms">
          <legend>{t`Norms`}</legend>
          <Checkbox label={t`before F`} item={state.before} />
          <Checkbox label={t`inside, on F’s output`} item={state.inside} />
          <Checkbox label={t`after the sum`} item={state.after} />
          <Checkbox label={t`final, after the last layer`} item={state.final} />
        </fieldset>
        <Choice label={t`Kind of norm`} item={state.norm} labels={NORM_NAMES} />
        <Choice label={t`Skip`} item={state.skip} labels={labels('skip')} />
        <Choice label={t`Gain`} item={state.gain} labels={labels('gain')} />
        <Choice
          label={t`Scale of the norm before F`}
          item={state.scale}
          labels={labels('beforeScale')}
        />
        {state.scale.value !== 'none' && !state.before.value && (
          <p class="hint">{t`There is no norm before F that this could scale.`}</p>
        )}
        <Choice
          label={t`Initial weights of
          F`}
          item={state.weights}
          labels={labels('initialGain')}
        />
      </div>
    </Advanced>
  );
}

function labels(slot: FactorSlot): Record<string, string> {
  const entries = factorNames(slot).map((name) => {
    const { label, note } = factor(slot, name);
    return [name, note ? `${label}, ${note}` : label];
  });
  return Object.fromEntries(entries);
}
