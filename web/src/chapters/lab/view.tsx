// The chapter “The lab”. The library computes the figures and writes the verdicts.

import type { Verdict } from '../../kernels/lab';
import { t, Trans, translated } from '../../language/text';
import { Advanced } from '../../ui/advanced';
import {
  Button,
  Choice,
  Choices,
  Code,
  Failure,
  Select,
  Slider,
  TextField,
} from '../../ui/controls';
import { useNear } from '../../ui/near';
import { Wait } from '../../ui/room';
import { BUG_NAMES, FIGURE_NAMES } from './names';
import { PanelFigure } from './panel';
import { list, problem, type Ran, ran, run, running } from './runner';
import {
  chosenFigure,
  command,
  figureChoice,
  PROGRAM,
  request,
  SEEN_BY,
  showBugIn,
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
        {ran.value && running.value && <Computing />}
        {ran.value ? (
          <Result {...ran.value} />
        ) : (
          !problem.value && <Wait height={[3560, 1900, 1960]}>{t`The figure is being drawn.`}</Wait>
        )}
      </div>
      <Trained />
    </div>
  );
}

/** A note over the figure that a newer one will replace. */
function Computing() {
  return (
    <p class="lab-computing" role="status">
      {t`Computing …`}
    </p>
  );
}

function Story() {
  return (
    <p>
      <Trans>
        The earlier chapters made claims. Here each claim is tested on random networks. The wide
        pale line is the prediction of theory, and the line over it is the measurement. The verdict
        below can fail. Try it: put a bug that raises no error into the network, and see which
        claims no longer hold.
      </Trans>
    </p>
  );
}

/** "3,6,12" as "3, 6, 12". */
const withSpaces = (lists: readonly string[]): Record<string, string> =>
  Object.fromEntries(lists.map((list) => [list, list.replaceAll(',', ', ')]));

function Controls() {
  const { layers, depths, stackWidth, rowWidth, seeds, placements } = chosenFigure();
  return (
    <>
      <Choice label={t`Figure`} item={figureChoice} labels={FIGURE_NAMES} />
      <div class="controls">
        {layers && <Slider label={t`Layers`} item={layers} />}
        {depths && (
          <Choice label={t`Layers`} item={depths} labels={withSpaces(depths.field.values)} />
        )}
        {stackWidth && <Choice label="d_model" item={stackWidth} />}
        {rowWidth && <Choice label={t`Features`} item={rowWidth} />}
        {seeds && <Slider label={t`Seeds`} item={seeds} />}
        <TextField label={t`First seed`} item={state.seed} />
      </div>
      {placements && <Choices label={t`Placements`} item={placements} />}
      <Bugs />
    </>
  );
}

function Bugs() {
  const chosen = list.value?.bugs.find(({ name }) => name === state.bug.value);
  return (
    <div class="controls lab-bug">
      <Select label={t`Break it`} item={state.bug} labels={BUG_NAMES} />
      {chosen && <p class="hint">{translated(chosen.meaning)}.</p>}
    </div>
  );
}

const CLASSES: Record<Verdict, string> = {
  inside: 'good',
  outside: 'bad',
  'not applicable': 'faint',
};

const VERDICTS: Record<Verdict, string> = {
  inside: t`inside`,
  outside: t`outside`,
  'not applicable': t`not applicable`,
};

const SIGNS: Record<Verdict, string> = { inside: '✓', outside: '✗', 'not applicable': '–' };

function Mark({ verdict }: { verdict: Verdict }) {
  return (
    <strong class={CLASSES[verdict]}>
      <span class="lab-sign" aria-hidden="true">
        {SIGNS[verdict]}
      </span>{' '}
      {VERDICTS[verdict]}
    </strong>
  );
}

function Result({ run, request, milliseconds }: Ran) {
  const unseen = request.bug !== undefined && run.verdict !== 'outside';
  return (
    <>
      <h3 data-figure={run.figure}>{run.title}</h3>
      <p>{run.question}</p>
      <p class="lab-sum" data-verdict={run.verdict} role="status">
        <Mark verdict={run.verdict} /> {run.tally}.
        {unseen && ` ${t`This figure does not detect the bug.`}`}
      </p>
      {unseen && <SeenElsewhere bug={request.bug as keyof typeof SEEN_BY} shown={request.figure} />}
      <div class="lab-panels">
        {run.panels.map((panel, i) => (
          <PanelFigure key={i} panel={panel} fails={run.verdict === 'outside'} />
        ))}
      </div>
      <h4>{t`Claims`}</h4>
      <ul class="plain-list">
        {run.checks.map(({ verdict, text }, i) => (
          <li key={i} data-check={verdict}>
            <Mark verdict={verdict} /> {text}
          </li>
        ))}
      </ul>
      <p class="hint">
        {run.setting}.{' '}
        {t`Based on ${run.source}. ± gives four standard errors of a mean over seeds. A
          claim holds if this interval overlaps the allowed one. Computed here in
          ${Math.round(milliseconds)} ms; the program computes the same:`}
      </p>
      <Code name={t`command`} text={command(request)} />
    </>
  );
}

/** A button that shows the bug in a figure that detects it. */
function SeenElsewhere({ bug, shown }: { bug: keyof typeof SEEN_BY; shown: string }) {
  const figure = SEEN_BY[bug];
  if (figure === shown) return null; // this figure does detect it, but not with these options
  return (
    <p>
      <Button onClick={() => showBugIn(figure)}>
        {t`Put it into “${FIGURE_NAMES[figure]}”, which detects it`}
      </Button>
    </p>
  );
}

function Trained() {
  const trained = list.value?.figures.filter(({ trains }) => trains);
  return (
    <Advanced heading title={t`Figures that train`}>
      <p>
        <Trans>
          Some figures train dozens of networks; each figure takes half a minute on two cores. They
          show the effect of warm-up, the learning rates that a norm allows, a comparison of all
          placements, and how deep a stack can be trained. The program runs these figures and the
          ones above. It draws them in the terminal, as SVG or as one page.
        </Trans>
      </p>
      {trained && (
        <Code
          name={t`commands`}
          text={trained.map(({ name }) => `${PROGRAM} lab ${name}`).join('\n')}
        />
      )}
    </Advanced>
  );
}
