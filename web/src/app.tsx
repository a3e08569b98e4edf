// The page: its head, its contents list, its chapters.

import { useEffect } from 'preact/hooks';
import { chapters } from './chapters';
import { Hero } from './hero/view';
import { canRedo, canUndo, redo, undo } from './state/history';
import { readState, resetState } from './state/store';
import { Button, ChapterLink } from './ui/controls';
import { Page } from './ui/page';
import { Toolbar } from './ui/toolbar';

export function App() {
  useEffect(() => {
    addEventListener('keydown', undoByKey);
    return () => removeEventListener('keydown', undoByKey);
  }, []);

  return (
    <>
      <ChapterLink class="skip" to="add-norm">
        Skip to the first chapter
      </ChapterLink>
      <Hero
        title="Add & Norm"
        introduction={
          'The residual connections and norms of every Transformer, to see, touch and try. Every ' +
          'number on this page is computed here, by the kernels of the addnorm library.'
        }
      />
      <Page>
        <Toolbar reset={resetAll}>
          <Button onClick={undo} disabled={!canUndo.value}>
            Undo
          </Button>
          <Button onClick={redo} disabled={!canRedo.value}>
            Redo
          </Button>
        </Toolbar>
        <Contents />
        <main>
          {chapters.map(({ id, title, View, state, reset }, i) => (
            <section key={id} id={id} class="chapter" tabIndex={-1} aria-labelledby={`${id}-title`}>
              <div class="chapter-head">
                <h2 id={`${id}-title`}>
                  <span class="number">{i + 1}</span> {title}
                </h2>
                <Button
                  onClick={() => {
                    resetState(state);
                    reset?.();
                  }}
                >
                  Reset chapter
                </Button>
              </div>
              <View />
            </section>
          ))}
        </main>
      </Page>
    </>
  );
}

/** Ctrl+Z; Ctrl+Y and Ctrl+Shift+Z. A text field has an undo of its own. */
function undoByKey(event: KeyboardEvent) {
  const typing = (event.target as HTMLElement).matches('input[type=text], textarea');
  if (typing || !(event.ctrlKey || event.metaKey) || event.altKey) return;
  const key = event.key.toLowerCase();
  if (key !== 'z' && key !== 'y') return;
  event.preventDefault();
  if (key === 'y' || event.shiftKey) redo();
  else undo();
}

function resetAll() {
  readState('');
  chapters.forEach(({ reset }) => reset?.());
}

function Contents() {
  return (
    <nav class="contents" aria-label="Chapters">
      <ol>
        {chapters.map(({ id, title }) => (
          <li key={id}>
            <ChapterLink to={id}>{title}</ChapterLink>
          </li>
        ))}
      </ol>
    </nav>
  );
}
