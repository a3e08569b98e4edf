// The page of training runs: their list, and the curves of the selected ones.

import { language } from '../language/language';
import { t, Trans } from '../language/text';
import { query } from '../state/query';
import { readState } from '../state/store';
import { Page } from '../ui/page';
import { Toolbar } from '../ui/toolbar';
import { ByLayer } from './by-layer';
import { Curves } from './curves';
import { problem, runs, shownRuns } from './feed';
import { RunList } from './run-list';
import './style.css';

const tutorial = `./${query.has('lang') ? `?lang=${language}` : ''}`;

export function App() {
  return (
    <Page class="runs">
      <header class="head">
        <h1>{t`Training runs`}</h1>
        <p>
          <Trans>
            This page shows what addnorm train writes, while it is running.{' '}
            <a href={tutorial}>The tutorial</a> explains the terms.
          </Trans>
        </p>
      </header>
      <Toolbar reset={() => readState('')} />
      <main>
        <p class="problem" role="status">
          {problem.value}
        </p>
        <Runs />
      </main>
    </Page>
  );
}

function Runs() {
  if (runs.value === undefined) return null;
  if (runs.value.length === 0) {
    return (
      <p>
        <Trans>
          There are no runs in this folder yet. This command starts one:{' '}
          <code>addnorm train --text FILE --out DIR/NAME</code>
        </Trans>
      </p>
    );
  }
  return (
    <>
      <RunList runs={runs.value} />
      {shownRuns.value.length > 0 && (
        <>
          <Curves />
          <ByLayer />
        </>
      )}
    </>
  );
}
