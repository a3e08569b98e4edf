// The speaker's notes in a separate window, for a screen that the audience does not see. The window
// has no file and no server: this page writes its content.

import { effect, signal } from '@preact/signals';
import { render } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { numberOf, onRoute } from '../chapters';
import { language } from '../language/language';
import { t } from '../language/text';
import { Button } from '../ui/controls';
import { isDark } from '../ui/theme';
import { type Moves, press } from './keys';
import { notesOf } from './notes';
import { place, step, steps } from './place';

const NAME = 'addnorm-speaker';

let speaker: Window | null = null;

/** Whether the window is open. */
export const speakerShown = signal(false);

/** Opens the window. Returns false if the browser blocks it. */
export function openSpeaker(moves: Moves): boolean {
  if (speaker && !speaker.closed) {
    speaker.focus();
    return true;
  }
  speaker = open('', NAME, 'popup,width=720,height=620');
  if (speaker === null) return false;
  fill(speaker, { ...moves, leave: closeSpeaker });
  speakerShown.value = true;
  return true;
}

export function closeSpeaker(): void {
  speaker?.close();
  speaker = null;
  speakerShown.value = false;
}

function fill(opened: Window, moves: Moves): void {
  const { document: page } = opened;
  page.open(); // without it, Firefox would replace the page by its own empty one
  page.write('<!doctype html><html><head></head><body></body></html>');
  page.close();
  page.documentElement.lang = language;
  page.title = t`Speaker’s notes`;
  for (const style of document.querySelectorAll('style, link[rel=stylesheet]')) {
    const copy = page.importNode(style, true);
    if (style instanceof HTMLLinkElement) (copy as HTMLLinkElement).href = style.href;
    page.head.append(copy);
  }
  const end = effect(
    () => void (page.documentElement.dataset.theme = isDark.value ? 'dark' : 'light'),
  );
  render(<Speaker moves={moves} />, page.body);
  opened.addEventListener('keydown', (event) => press(event, moves));
  opened.addEventListener('pagehide', () => {
    end();
    render(null, page.body);
    if (speaker === opened) speakerShown.value = false;
  });
  addEventListener('pagehide', closeSpeaker, { once: true });
}

function Speaker({ moves }: { moves: Moves }) {
  const chapter = onRoute.value[place.value];
  const { id, title } = chapter.source;
  const at = step.value;
  const notes = notesOf(id);
  return (
    <main class="speaker">
      <p role="status">
        <strong>
          {numberOf(chapter)} {title}
        </strong>{' '}
        {at >= 0 && t`step ${at + 1} of ${steps.value.length}`} <Clock />
      </p>
      <p class="speaker-note">{notes[at] ?? t`There is no note for this step.`}</p>
      <h2>{t`Next step`}</h2>
      <p class="faint">
        {notes[at + 1] ?? onRoute.value[place.value + 1]?.source.title ?? t`The end.`}
      </p>
      <div class="buttons">
        <Button onClick={moves.back}>{t`Back`}</Button>
        <Button kind="primary" onClick={moves.next}>
          {t`Next`}
        </Button>
      </div>
    </main>
  );
}

/** The time since the window was opened. */
function Clock() {
  const [seconds, setSeconds] = useState(0);
  useEffect(() => {
    const began = performance.now();
    const tick = () => setSeconds(Math.floor((performance.now() - began) / 1000));
    const timer = setInterval(tick, 1000);
    return () => clearInterval(timer);
  }, []);
  const rest = String(seconds % 60).padStart(2, '0');
  return (
    <span class="speaker-clock" aria-hidden="true">
      {Math.floor(seconds / 60)}:{rest}
    </span>
  );
}
