// The page: its head, its contents list, its chapters.

import { batch } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { type Chapter, chapters, numberOf, onRoute } from './chapters';
import { ChapterSection } from './chapters/section';
import { Closing, Goals } from './closing';
import { address, preparing, printHandout } from './handout/print';
import { Hero } from './hero/view';
import { failure } from './kernels/current';
import { t, Trans } from './language/text';
import { present, presenter, presenting } from './present/start';
import { canRedo, canUndo, redo, undo } from './state/history';
import { route } from './state/route';
import { readState } from './state/store';
import { Button, ChapterLink, Failure, showAwaited } from './ui/controls';
import { chapterInView, watchChapters } from './ui/in-view';
import { closeOutside } from './ui/save-menu';
import { Page } from './ui/page';
import { Toolbar } from './ui/toolbar';

export function App() {
  useEffect(() => {
    addEventListener('keydown', undoByKey);
    return () => removeEventListener('keydown', undoByKey);
  }, []);
  useEffect(showAwaited, [onRoute.value]);
  useEffect(() => watchChapters(document.querySelectorAll('.chapter')), [onRoute.value]);
  const Presenter = presenting.value ? presenter.value : undefined;

  return (
    <>
      <ChapterLink class="skip" to="add-norm">
        {t`Skip to the first chapter`}
      </ChapterLink>
      <Hero
        title="Add & Norm"
        introduction={t`The residual connections and norms of every Transformer, to see, touch and
            try. The kernels of the addnorm library compute the figures here, in your browser. Every
            number is computed live unless a source is given.`}
      />
      <Page>
        <Toolbar reset={resetAll} end={<Outputs />}>
          <Button onClick={undo} disabled={!canUndo.value}>
            {t`Undo`}
          </Button>
          <Button onClick={redo} disabled={!canRedo.value}>
            {t`Redo`}
          </Button>
        </Toolbar>
        <Contents />
        <main>
          <Goals />
          <Failure text={failure.value} />
          {onRoute.value.map((chapter) => (
            <ChapterSection key={chapter.source.id} chapter={chapter} number={numberOf(chapter)} />
          ))}
          <Closing />
        </main>
        {Presenter && <Presenter />}
        <p class="handout-source">
          <Trans>This page in its current state: {{ address }}</Trans>
        </p>
      </Page>
    </>
  );
}

function Outputs() {
  return (
    <>
      <Button onClick={present}>{t`Present`}</Button>
      <PrintMenu />
    </>
  );
}

/** Offers the chapter in view, or the first one, and the whole page. */
function PrintMenu() {
  const menu = useRef<HTMLDetailsElement>(null);
  const inView = chapters.find(({ source }) => source.id === chapterInView.value);
  const chapter = inView ?? chapters[0];
  const choose = (only?: Chapter) => {
    menu.current!.open = false;
    void printHandout(only);
  };
  return (
    <details class="menu" ref={menu} onFocusOut={closeOutside}>
      <summary class="button" aria-disabled={preparing.value}>
        {preparing.value ? t`Preparing …` : t`Print`}
      </summary>
      <div class="buttons">
        <Button disabled={preparing.value} onClick={() => choose(chapter)}>
          {t`This chapter: ${chapter.source.title}`}
        </Button>
        <Button disabled={preparing.value} onClick={() => choose()}>
          {t`All ${onRoute.value.length} chapters`}
        </Button>
      </div>
    </details>
  );
}

/** Handles the keys of undo and redo: Ctrl+Z, Ctrl+Y and Ctrl+Shift+Z. A
 * text field has its own undo. */
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
  const kept = route.value;
  batch(() => {
    readState('');
    route.value = kept;
  });
  chapters.forEach(({ view }) => view.value?.reset?.());
}

function Contents() {
  const list = useRef<HTMLOListElement>(null);
  useEffect(() => {
    const link = list.current!.querySelector<HTMLElement>('[aria-current]');
    if (link) list.current!.scrollTo({ left: link.offsetLeft - list.current!.clientWidth / 3 });
  }, [chapterInView.value]);
  return (
    <nav class="contents" aria-label={t`Chapters`}>
      <ol ref={list}>
        {onRoute.value.map((chapter) => {
          const { id, title } = chapter.source;
          return (
            <li key={id} value={numberOf(chapter)}>
              <ChapterLink to={id} current={id === chapterInView.value}>
                {title}
              </ChapterLink>
            </li>
          );
        })}
      </ol>
    </nav>
  );
}
