import { localNumber } from '../language/language';
import { t } from '../language/text';
import { tidy } from '../state/fields';
import { grouped, roundNumber } from '../ui/numbers';
import { DataTable } from '../ui/table';
import { type Run, shownRuns } from './feed';
import { looksOf } from './looks';
import { differing } from './settings';
import { state } from './state';

export function RunList({ runs }: { runs: readonly Run[] }) {
  const settings = differing(runs.map(({ config }) => config));
  return (
    <div class="run-list">
      <DataTable
        caption={t`Runs, the newest first`}
        visible
        columns={[t`run`, t`state`, t`step`, t`loss`, t`bits per byte`, t`tokens/s`, ...settings]}
        rows={runs.map((run) => ({
          head: <Name run={run} />,
          cells: [
            <span class={MARKS[run.state]}>{STATES[run.state]}</span>,
            progress(run),
            lossOf(run),
            run.validation_loss === null ? '–' : roundNumber(run.validation_loss / Math.LN2),
            run.seconds ? grouped(Math.round(run.tokens! / run.seconds)) : '–',
            ...settings.map((key) => written(run.config[key])),
          ],
          data: { run: run.name },
        }))}
      />
      {shownRuns.value.map(
        ({ name, stopped }) =>
          stopped && (
            <p key={name} class="problem">
              {t`${name} has stopped: ${stopped}.`}
            </p>
          ),
      )}
    </div>
  );
}

const STATES: Record<Run['state'], string> = {
  running: t`running`,
  finished: t`finished`,
  stopped: t`stopped`,
};
const MARKS: Record<Run['state'], string> = { running: 'good', finished: '', stopped: 'bad' };

function Name({ run }: { run: Run }) {
  const { colour, dash } = looksOf(run);
  const shown = shownRuns.value.map(({ name }) => name);
  const isShown = shown.includes(run.name);
  const toggle = () =>
    (state.shown.value = isShown ? shown.filter((n) => n !== run.name) : [...shown, run.name]);
  return (
    <label class="checkbox">
      <input type="checkbox" checked={isShown} onChange={toggle} />
      <svg class="run-line" height="3" aria-hidden="true">
        <path d="M0 1.5H26" stroke={colour} stroke-width="3" stroke-dasharray={dash} />
      </svg>
      {run.name}
    </label>
  );
}

function lossOf({ step, loss }: Run): string {
  if (loss !== null) return roundNumber(loss);
  return step === null ? '–' : t`not finite`;
}

function written(setting: unknown): string {
  return typeof setting === 'number' ? localNumber(String(tidy(setting))) : String(setting ?? '–');
}

function progress({ step, config }: Run): string {
  const done = grouped(step ?? 0);
  return typeof config.steps === 'number' ? t`${done} of ${grouped(config.steps)}` : done;
}
