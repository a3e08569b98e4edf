import { render } from 'preact';
import { App } from './app';
import { chapters } from './chapters';
import { Embed } from './embed/view';
import { prepareWhenAsked } from './handout/print';
import { failure, loadKernels, ready, setKernels } from './kernels/current';
import { preload } from './kernels/sessions';
import { t } from './language/text';
import { startHistory } from './state/history';
import { currentChapter, startLink } from './state/link';
import { embedded } from './state/query';
import { showChapter } from './ui/controls';
import { loadKatex } from './ui/formula';
import { followDrags } from './ui/motion';
import './style.css';

const root = document.getElementById('app')!;
followDrags();
document.title = t`Add & Norm, to see, touch and try`;
root.removeAttribute('data-prerendered');
if (embedded !== null) root.replaceChildren();
// Unlike hydrate(), render() corrects prerendered elements that differ from this reader's page:
// texts, attributes, and the values of controls, which the browser may have restored.
render(embedded === null ? <App /> : <Embed />, root);

loadKernels().then(
  (kernels) => {
    setKernels(kernels);
    startLink(
      chapters.map(({ source }) => source.id),
      // In a frame, this would scroll the embedding page and take its focus.
      (chapter) => embedded === null && requestAnimationFrame(() => showChapter(chapter)),
    );
    startHistory();
    ready.value = true;
    if (embedded !== null) return;
    prepareWhenAsked();
    if (!savesData()) afterFirstInteraction(loadTheRest);
  },
  (error) => (failure.value = error instanceof Error ? error.message : String(error)),
);

/** Whether the reader has asked the browser to save data. Chapters are then loaded only when they
 * are near. Not every browser reports this. */
function savesData(): boolean {
  return (navigator as { connection?: { saveData?: boolean } }).connection?.saveData ?? false;
}

/** Calls `start` after the first interaction with the page. Opening a link
 * to a chapter counts as one. */
function afterFirstInteraction(start: () => void): void {
  if (currentChapter() !== '') return start();
  const ended = new AbortController();
  for (const type of ['pointerdown', 'keydown', 'wheel', 'touchstart', 'scroll', 'change']) {
    const once = () => {
      ended.abort();
      start();
    };
    addEventListener(type, once, { passive: true, signal: ended.signal });
  }
}

/** Loads the rest chapter by chapter, then the workers, so that the page works without the server. */
async function loadTheRest(): Promise<void> {
  for (const chapter of chapters) {
    await idle();
    await chapter.load();
  }
  await loadKatex().catch(() => {});
  preload();
}

function idle(): Promise<unknown> {
  return new Promise((resolve) =>
    'requestIdleCallback' in window
      ? requestIdleCallback(resolve, { timeout: 500 })
      : setTimeout(resolve, 100),
  );
}
