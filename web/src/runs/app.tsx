// The page of training runs: their list, and curves of those that are shown.

import { readState } from '../state/store';
import { Page } from '../ui/page';
import { Toolbar } from '../ui/toolbar';
import { ByLayer } from './by-layer';
import { Curves } from './curves';
import { problem, runs, shownRuns } from './feed';
import { RunList } from './run-list';
import './style.css';

export function App() {
  return (
    <Page class="runs">
      <header class="head">
        <h1>Training runs</h1>
        <p>
          What addnorm train writes, while it writes it. <a href="./">The tutorial</a> explains it.
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
        There are no runs in this folder yet. This starts one:{' '}
        <code>addnorm train --text FILE --out DIR/NAME</code>
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
