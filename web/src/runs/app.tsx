// The page of training runs: their list, and curves of those that are shown.

import { readState } from '../state/store';
import { showNumbers } from '../ui/table';
import { Toolbar } from '../ui/toolbar';
import { ByLayer } from './by-layer';
import { Curves } from './curves';
import { problem, runs, shownRuns } from './feed';
import { RunList } from './run-list';
import './style.css';

export function App() {
  return (
    <div class={showNumbers.value ? 'page runs numbers-shown' : 'page runs'}>
      <header class="head">
        <h1>Training runs</h1>
        <p>
          What addnorm train writes, as it writes it. <a href="./">The tutorial</a> says what it
          means.
        </p>
      </header>
      <Toolbar reset={() => readState('')} />
      <main>
        <p class="problem" role="status">
          {problem.value}
        </p>
        <Runs />
      </main>
      <footer>
        <p>addnorm, Apache-2.0. The page loads nothing from anywhere else.</p>
      </footer>
    </div>
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
