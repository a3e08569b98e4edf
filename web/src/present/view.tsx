// The presenter: a bar with the position and the buttons; above it the notes, all steps, or the keys.

import { signal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { type Chapter, numberOf, onRoute } from '../chapters';
import { t } from '../language/text';
import { Button } from '../ui/controls';
import { enlarge, keepFitting } from './fit';
import { Help } from './help';
import { Jump } from './jump';
import { type Moves, onSwipe, press, watchClicks } from './keys';
import { notesOf } from './notes';
import { back, next, place, setSteps, step, steps, writeStep } from './place';
import { closeSpeaker, openSpeaker, speakerShown } from './speaker';
import { fillScreen, leaveFullScreen, presenting } from './start';
import { putOnStage, stepsOf } from './steps';

type Panel = 'none' | 'notes' | 'jump' | 'help';

/** The panel above the bar. */
const panel = signal<Panel>('none');
const toggle = (which: Panel) => () => (panel.value = panel.value === which ? 'none' : which);
const close = () => (panel.value = 'none');

const moves: Moves = {
  next,
  back,
  leave: () => (panel.value === 'jump' || panel.value === 'help' ? close() : leave()),
  notes: toggle('notes'),
  speaker: showSpeaker,
  jump: toggle('jump'),
  help: toggle('help'),
  fullScreen: toggleFullScreen,
};

let goesOn = false; // the presentation continues in the window after full screen ends

function toggleFullScreen(): void {
  goesOn = document.fullscreenElement !== null;
  if (goesOn) leaveFullScreen();
  else fillScreen();
}

/** Opens the speaker's window. The browser leaves full screen for it, which must not end the
 * presentation. If the window is blocked, the notes are shown below the step. */
function showSpeaker(): void {
  goesOn = document.fullscreenElement !== null;
  if (goesOn) leaveFullScreen();
  if (!openSpeaker(moves)) panel.value = 'notes';
}

/** Ends the presentation. The page shows the last chapter. */
function leave(): void {
  presenting.value = false;
  close();
  closeSpeaker();
  putOnStage([]);
  setSteps([]);
  writeStep(undefined);
  leaveFullScreen();
  sectionOf(onRoute.value[place.value]).scrollIntoView({ behavior: 'instant' });
}

export function Presenter() {
  const chapter = onRoute.value[place.value];
  const at = step.value;
  useEffect(listen, []);
  useEffect(() => follow(chapter), [chapter]);
  useEffect(() => putOnStage(steps.value[at] ?? [sectionOf(chapter)]), [chapter, at, steps.value]);
  useEffect(() => arrive(chapter, at), [chapter, at]);
  return (
    <div class="presenter">
      {panel.value === 'notes' && <Notes text={notesOf(chapter.source.id)[at]} />}
      {panel.value === 'jump' && <Jump close={close} />}
      {panel.value === 'help' && <Help />}
      <Bar chapter={chapter} at={at} />
    </div>
  );
}

function Bar({ chapter, at }: { chapter: Chapter; at: number }) {
  const shown = at < 0 ? 0 : (at + 1) / steps.value.length; // the shown part of the chapter
  const isFirst = place.value === 0 && at <= 0;
  const isLast = place.value === onRoute.value.length - 1 && shown === 1;
  return (
    <div class="presenter-bar" role="toolbar" aria-label={t`Presentation`}>
      <div class="presenter-progress" aria-hidden="true">
        <div style={{ width: `${(100 * (place.value + shown)) / onRoute.value.length}%` }} />
      </div>
      <Button onClick={back} disabled={isFirst}>
        {t`Back`}
      </Button>
      <Button kind="primary" onClick={next} disabled={isLast}>
        {t`Next`}
      </Button>
      <p role="status">
        <strong>
          {numberOf(chapter)} {chapter.source.title}
        </strong>{' '}
        {at >= 0 && t`step ${at + 1} of ${steps.value.length}`}
        {chapter.problem.value}
      </p>
      <Button pressed={panel.value === 'jump'} onClick={moves.jump}>
        {t`Go to …`}
      </Button>
      <Button pressed={panel.value === 'notes'} onClick={moves.notes}>
        {t`Notes`}
      </Button>
      <Button pressed={speakerShown.value} onClick={moves.speaker}>
        {t`Notes window`}
      </Button>
      <Button onClick={moves.fullScreen}>{t`Full screen`}</Button>
      <Button pressed={panel.value === 'help'} onClick={moves.help}>
        {t`Keys`}
      </Button>
      <Button onClick={leave}>{t`Leave`}</Button>
    </div>
  );
}

function Notes({ text = t`There is no note for this step.` }: { text: string | undefined }) {
  return (
    <aside class="presenter-panel presenter-notes" aria-label={t`Speaker’s notes`}>
      <p>{text}</p>
    </aside>
  );
}

function sectionOf(chapter: Chapter): HTMLElement {
  return document.getElementById(chapter.source.id)!;
}

function listen(): () => void {
  const ended = new AbortController();
  const { signal } = ended;
  addEventListener('keydown', (event) => press(event, moves), { signal });
  // In full screen, the browser itself handles Escape.
  const changed = () => {
    if (document.fullscreenElement === null && !goesOn) leave();
    goesOn = false;
  };
  document.addEventListener('fullscreenchange', changed, { signal });
  onSwipe(moves, signal);
  watchClicks(signal);
  return () => ended.abort();
}

/** Updates the steps when the chapter changes: results arrive late and change with the controls. */
function follow(chapter: Chapter): () => void {
  const section = sectionOf(chapter);
  const read = () => {
    const found = section.querySelector('.chapter-room') ? [] : stepsOf(section);
    const known = steps.peek().flat();
    const [now, isNew] = [found.flat(), (element: Element, i: number) => element !== known[i]];
    if (now.length !== known.length || now.some(isNew)) setSteps(found);
  };
  const observer = new MutationObserver(read);
  observer.observe(section, { childList: true, subtree: true });
  read();
  const end = keepFitting(section);
  void chapter.load().then(() => onRoute.value[onRoute.value.indexOf(chapter) + 1]?.load());
  return () => {
    observer.disconnect();
    end();
  };
}

/** Moves the focus to the step, so that keys do not reach a control that is no longer visible. */
function arrive(chapter: Chapter, at: number): void {
  if (at < 0) return;
  const focused = document.activeElement;
  if (!focused?.closest('.presenter')) sectionOf(chapter).focus({ preventScroll: true });
  scrollTo({ top: 0, behavior: 'instant' });
  enlarge();
  writeStep(at);
}
