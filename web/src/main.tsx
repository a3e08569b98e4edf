import { render } from 'preact';
import { App } from './app';
import { setKernels } from './kernels/current';
import { loadKernels } from './kernels/load';
import { startHistory } from './state/history';
import { startLink } from './state/link';
import { showChapter } from './ui/controls';
import './style.css';

const root = document.getElementById('app')!;

try {
  setKernels(await loadKernels());
  root.replaceChildren();
  let shown = false;
  startLink((chapter) => requestAnimationFrame(() => shown && showChapter(chapter)));
  startHistory();
  render(<App />, root);
  shown = true;
} catch (error) {
  root.replaceChildren();
  render(
    <p class="failure" role="alert">
      {error instanceof Error ? error.message : String(error)}
    </p>,
    root,
  );
}
