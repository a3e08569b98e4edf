import { tidy } from '../state/fields';
import { dashBorder } from '../ui/line-chart';
import { roundNumber } from '../ui/numbers';
import { ScrollTable } from '../ui/table';
import { themed } from '../ui/theme';
import { type Run, shownRuns } from './feed';
import { looksOf } from './looks';
import { differing } from './settings';
import { state } from './state';

export function RunList({ runs }: { runs: readonly Run[] }) {
  return (
    <div class="run-list">
      <ScrollTable caption="Runs, the newest first" visible>
        <Rows runs={runs} />
      </ScrollTable>
      {shownRuns.value.map(
        ({ name, stopped }) =>
          stopped && (
            <p key={name} class="problem">
              {name} has stopped: {stopped}.
            </p>
          ),
      )}
    </div>
  );
}

function Rows({ runs }: { runs: readonly Run[] }) {
  const settings = differing(runs.map(({ config }) => config));
  return (
    <>
      <thead>
        <tr>
          {['run', 'state', 'step', 'loss', 'bits a byte', 'tokens/s', ...settings].map((head) => (
            <th scope="col" key={head}>
              {head}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {runs.map((run) => (
          <tr key={run.name} data-run={run.name}>
            <Name run={run} />
            <td data-state={run.state}>{run.state}</td>
            <td>{progress(run)}</td>
            <td>{lossOf(run)}</td>
            <td>
              {run.validation_loss === null ? '–' : roundNumber(run.validation_loss / Math.LN2)}
            </td>
            <td>
              {run.seconds ? Math.round(run.tokens! / run.seconds).toLocaleString('en') : '–'}
            </td>
            {settings.map((key) => (
              <td key={key}>{written(run.config[key])}</td>
            ))}
          </tr>
        ))}
      </tbody>
    </>
  );
}

function Name({ run }: { run: Run }) {
  const { colour, dash } = looksOf(run);
  const shown = shownRuns.value.map(({ name }) => name);
  const isShown = shown.includes(run.name);
  const toggle = () =>
    (state.shown.value = isShown ? shown.filter((n) => n !== run.name) : [...shown, run.name]);
  return (
    <th scope="row">
      <label class="checkbox">
        <input type="checkbox" checked={isShown} onChange={toggle} />
        <span class="run-line" style={{ borderTop: `3px ${dashBorder(dash)} ${themed(colour)}` }} />
        {run.name}
      </label>
    </th>
  );
}

function lossOf({ step, loss }: Run): string {
  if (loss !== null) return roundNumber(loss);
  return step === null ? '–' : 'not finite';
}

function written(setting: unknown): string {
  return typeof setting === 'number' ? String(tidy(setting)) : String(setting ?? '–');
}

function progress({ step, config }: Run): string {
  const done = (step ?? 0).toLocaleString('en');
  return typeof config.steps === 'number'
    ? `${done} of ${config.steps.toLocaleString('en')}`
    : done;
}
