// The five slots as switches, the named placements, the diagram and the equation.

import type { Arrangement, Placement } from '../../kernels/kernels';
import { Button, Checkbox, Choice } from '../../ui/controls';
import { Formula } from '../../ui/formula';
import { chosenArrangement, choose, equation, rowOf } from './arrangement';
import { Diagram } from './diagram';
import { GAINS, SCALES, SKIPS, state, WEIGHTS } from './state';

export function Switchboard({ table }: { table: Placement[] }) {
  const arrangement = chosenArrangement();
  const row = rowOf(arrangement, table);
  return (
    <>
      <div class="placement-names" role="group" aria-label="Named placements">
        {table.map((p) => (
          <Button key={p.name} pressed={p === row} onClick={() => choose(p, table)}>
            {p.name}
          </Button>
        ))}
      </div>
      <div class="placement-board">
        <Diagram arrangement={arrangement} />
        <div>
          <Named arrangement={arrangement} row={row} />
          <Switches />
        </div>
      </div>
    </>
  );
}

function Named({ arrangement, row }: { arrangement: Arrangement; row: Placement | undefined }) {
  return (
    <div class="placement-named" role="status">
      <p>
        <strong data-name>{row?.name ?? 'your own'}</strong>
        {row ? ` · ${row.usedBy}` : ' · no row of the library’s table; it runs all the same'}
      </p>
      <Formula block tex={equation(arrangement, state.norm.value)} />
      <Terms arrangement={arrangement} />
    </div>
  );
}

// When it is in the equation, its sign, its meaning.
const TERMS: [(a: Arrangement) => boolean, string, string][] = [
  [(a) => a.skip === 'admin', String.raw`\omega`, 'a learned vector, first measured on one batch'],
  [(a) => a.gain === 'rezero', String.raw`\alpha`, 'a learned number, 0 at first'],
  [
    (a) => a.gain === 'layerscale',
    String.raw`\lambda`,
    'a learned vector, 0.1 at first (1e-5 from 19 layers on)',
  ],
  [(a) => a.beforeScale !== 'none', 'l', 'the layer, from 1'],
  [
    (a) => [a.skip, a.initialGain].includes('deepnorm') || a.gain === 'scaled-branch',
    'N',
    'the number of layers',
  ],
];

function anyNorm(a: Arrangement): boolean {
  return a.before || a.inside || a.after;
}

function Terms({ arrangement: a }: { arrangement: Arrangement }) {
  const layer = state.norm.value === 'layer';
  const used = TERMS.filter(([isUsed]) => isUsed(a));
  return (
    <ul class="placement-terms">
      {anyNorm(a) && (
        <li>
          <Formula tex={`\\operatorname{${layer ? 'LN' : 'RMS'}}`} />:{' '}
          {layer ? 'LayerNorm' : 'RMSNorm'}
        </li>
      )}
      {used.map(([, tex, meaning]) => (
        <li key={tex}>
          <Formula tex={tex} />: {meaning}
        </li>
      ))}
      {a.initialGain === 'deepnorm' && (
        <li>
          The first weights of F (value, output, feed-forward) are multiplied by{' '}
          <Formula tex={String.raw`1/\sqrt[4]{8N}`} />.
        </li>
      )}
      {a.finalNorm && <li>After the last layer comes one more norm.</li>}
    </ul>
  );
}

function Switches() {
  return (
    <div class="placement-switches">
      <fieldset>
        <legend>Norms</legend>
        <Checkbox label="before F" item={state.before} />
        <Checkbox label="inside, on F’s output" item={state.inside} />
        <Checkbox label="after the sum" item={state.after} />
        <Checkbox label="final, after the last layer" item={state.final} />
      </fieldset>
      <Choice
        label="Kind of norm"
        item={state.norm}
        options={[
          { value: 'layer', label: 'LayerNorm' },
          { value: 'rms', label: 'RMSNorm' },
        ]}
      />
      <Choice
        label="Skip"
        item={state.skip}
        options={labelled(SKIPS, ['1', '0', '⁴√(2N)', 'learned ω'])}
      />
      <Choice
        label="Gain"
        item={state.gain}
        options={labelled(GAINS, ['1', '1/√N', 'learned α, 0 at first', 'learned λ, small'])}
      />
      <Choice
        label="Scale of the norm before F"
        item={state.scale}
        options={labelled(SCALES, ['1', '1/√l'])}
      />
      {state.scale.value !== 'none' && !state.before.value && (
        <p class="hint">There is no norm before F that this could scale.</p>
      )}
      <Choice
        label="First weights of F"
        item={state.weights}
        options={labelled(WEIGHTS, ['× 1', '× 1/⁴√(8N)'])}
      />
    </div>
  );
}

function labelled<V extends string>(values: readonly V[], labels: string[]) {
  return values.map((value, i) => ({ value, label: labels[i] }));
}
