import { render } from 'preact';
import { App } from './app';
import { chapters } from './chapters';
import { loadKernels, setKernels } from './kernels/current';
import { preload } from './kernels/sessions';
import { startHistory } from './state/history';
import { startLink } from './state/link';
import { showChapter } from './ui/controls';
import './style.css';

const root = document.getElementById('app')!;

try {
  setKernels(await loadKernels());
  root.replaceChildren();
  startLink(
    chapters.map(({ id }) => id),
    (chapter) => requestAnimationFrame(() => showChapter(chapter)),
  );
  startHistory();
  render(<App />, root);
  setTimeout(preload, 2000); // after the first paint
} catch (error) {
  root.replaceChildren();
  render(
    <p class="failure" role="alert">
      {error instanceof Error ? error.message : String(error)}
    </p>,
    root,
  );
}
