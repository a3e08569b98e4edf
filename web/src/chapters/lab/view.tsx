// The lab: the lab's figures and verdicts, which the library itself draws and writes.

import { useRef } from 'preact/hooks';
import type { LabCurve, LabPanel, Verdict } from '../../kernels/lab';
import { Choice, Choices, Code, Failure, Select, Slider, TextField } from '../../ui/controls';
import { useNear } from '../../ui/near';
import { exactNumber } from '../../ui/numbers';
import { Wait } from '../../ui/room';
import { SaveMenu } from '../../ui/save-menu';
import { DataTable, numberOrBlank } from '../../ui/table';
import { list, problem, type Ran, ran, run, running } from './runner';
import {
  BUGS,
  chosenFigure,
  command,
  figureChoice,
  FIGURES,
  PROGRAM,
  request,
  state,
} from './state';
import './style.css';

export function LabChapter() {
  const wanted = request();
  const element = useNear<HTMLDivElement>(wanted, () => run(wanted));
  return (
    <div ref={element}>
      <Story />
      <Controls />
      <Failure text={problem.value} />
      <div aria-busy={running.value} class={running.value ? 'lab-result busy' : 'lab-result'}>
        {ran.value ? (
          <Result {...ran.value} />
        ) : (
          !problem.value && <Wait height={[3355, 2460, 1840]}>The figure is being drawn.</Wait>
        )}
      </div>
      <Trained />
    </div>
  );
}

function Story() {
  return (
    <p>
      The earlier chapters made claims. Here each claim is tested on random networks. The wide pale
      line is the prediction of theory, the line over it the measurement, and the verdict below can
      fail. Try it: put a bug that raises no error into the network, and see which claims no longer
      hold.
    </p>
  );
}

/** The program's names with spaces, as labels. */
const spaced = (names: readonly string[], hyphen = '-', space = ' '): Record<string, string> =>
  Object.fromEntries(names.map((name) => [name, name.replaceAll(hyphen, space)]));

function Controls() {
  const { layers, depths, stackWidth, rowWidth, seeds, placements } = chosenFigure();
  return (
    <>
      <Choice label="Figure" item={figureChoice} labels={spaced(FIGURES)} />
      <div class="controls">
        {layers && <Slider label="Layers" item={layers} />}
        {depths && (
          <Choice label="Layers" item={depths} labels={spaced(depths.field.values, ',', ', ')} />
        )}
        {stackWidth && <Choice label="d_model" item={stackWidth} />}
        {rowWidth && <Choice label="Features" item={rowWidth} />}
        {seeds && <Slider label="Seeds" item={seeds} />}
        <TextField label="First seed" item={state.seed} />
      </div>
      {placements && <Choices label="Placements" item={placements} />}
      <Bugs />
    </>
  );
}

function Bugs() {
  const chosen = list.value?.bugs.find(({ name }) => name === state.bug.value);
  return (
    <div class="controls lab-bug">
      <Select label="Break it" item={state.bug} labels={{ ...spaced(BUGS), none: 'no bug' }} />
      {chosen && <p class="hint">{chosen.meaning}.</p>}
    </div>
  );
}

const CLASSES: Record<Verdict, string> = {
  inside: 'good',
  outside: 'bad',
  'not applicable': 'faint',
};

function Mark({ verdict }: { verdict: Verdict }) {
  return <strong class={CLASSES[verdict]}>{verdict}</strong>;
}

function Result({ run, request, milliseconds }: Ran) {
  const unseen = request.bug !== undefined && run.verdict !== 'outside';
  return (
    <>
      <h3 data-figure={run.figure}>{run.title}</h3>
      <p>{run.question}</p>
      <p class="lab-sum" data-verdict={run.verdict} role="status">
        <Mark verdict={run.verdict} /> {inWords(run.tally)}.
        {unseen && ' This figure does not detect the bug.'}
      </p>
      <div class="lab-panels">
        {run.panels.map((panel, i) => (
          <PanelFigure key={i} panel={panel} />
        ))}
      </div>
      <h4>What is claimed</h4>
      <ul>
        {run.checks.map(({ verdict, text }, i) => (
          <li key={i} data-check={verdict}>
            <Mark verdict={verdict} /> {inWords(text)}
          </li>
        ))}
      </ul>
      <p class="hint">
        {run.setting}. After {run.source}. Behind ± stand four standard errors of a mean over seeds.
        Computed here in {Math.round(milliseconds)} ms; the same from the program:
      </p>
      <Code name="command" text={command(request)} />
    </>
  );
}

/** The program's sentences, where a bug has left no number. */
function inWords(text: string): string {
  return text.replace(/-?\bnan\b/g, 'not a number').replace(/(-?)\binf\b/g, '$1∞');
}

function PanelFigure({ panel }: { panel: LabPanel }) {
  const figure = useRef<HTMLElement>(null);
  return (
    <figure class="figure lab-figure" ref={figure}>
      <div class="wide" dangerouslySetInnerHTML={{ __html: panel.wide }} />
      <div class="narrow" dangerouslySetInnerHTML={{ __html: panel.narrow }} />
      <figcaption class="hint">{panel.caption}</figcaption>
      <SaveMenu name={panel.title} figure={figure} />
      <div class="numbers">{panel.maps ? <Maps panel={panel} /> : <Numbers panel={panel} />}</div>
    </figure>
  );
}

interface Row {
  name: string;
  at: Map<number, number | null>;
}

/** One row for each list of numbers that the curve has. */
function rowsOf(curve: LabCurve, suffix: string): Row[] {
  const lists: [string, (number | null)[]][] = [
    [`${curve.name}${suffix}`, curve.y],
    [`${curve.name}${suffix}, from`, curve.low],
    [`${curve.name}${suffix}, to`, curve.high],
  ];
  return lists
    .filter(([, values]) => values.length > 0)
    .map(([name, values]) => ({ name, at: new Map(curve.x.map((x, i) => [x ?? NaN, values[i]])) }));
}

function Numbers({ panel }: { panel: LabPanel }) {
  const rows = [
    ...panel.measured.flatMap((curve) => rowsOf(curve, '')),
    ...panel.predicted.flatMap((curve) => rowsOf(curve, ' (theory)')),
  ];
  const places = [...new Set(rows.flatMap(({ at }) => [...at.keys()]))].sort((a, b) => a - b);
  const { label, names } = panel.x;
  return (
    <DataTable
      caption={`${panel.title}: ${panel.y.label}`}
      columns={[label, ...places.map((x) => names?.[x] ?? exactNumber(x))]}
      rows={rows.map(({ name, at }) => ({
        head: name,
        cells: places.map((x) => at.get(x)),
        data: { curve: name },
      }))}
      format={cellOf}
    />
  );
}

/** Blank where a curve has no such place; JSON has null for what is not finite. */
function cellOf(value: number | null | undefined): string {
  return value === null ? 'not finite' : numberOrBlank(value);
}

/** A table for each heat map. */
function Maps({ panel: { title, x, y, maps = [] } }: { panel: LabPanel }) {
  return (
    <>
      {maps.map(({ name, rows }) => (
        <DataTable
          key={name}
          caption={`${title}, ${name}`}
          columns={['', ...(x.names ?? rows[rows.length - 1].map((_, c) => c))]}
          rows={rows.map((cells, r) => ({
            head: y.names?.[r] ?? r,
            cells,
            data: { map: name },
          }))}
          format={numberOrBlank}
        />
      ))}
    </>
  );
}

function Trained() {
  const trained = list.value?.figures.filter(({ trains }) => trains);
  return (
    <>
      <h3>Figures that train</h3>
      <p>
        Some figures train dozens of networks, which takes half a minute on two cores each. They
        show the effect of warm-up, the learning rates that a norm allows, all placements in
        comparison, and how deep a stack can be trained. The program runs them, and also the figures
        above. It draws in the terminal, as SVG and as one page.
      </p>
      {trained && (
        <Code
          name="commands"
          text={trained.map(({ name }) => `${PROGRAM} lab ${name}`).join('\n')}
        />
      )}
    </>
  );
}
