// The guided tour: a box at the bottom of the window, and an outline around the explained part.

import type { ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { t } from '../../language/text';
import { embedded } from '../../state/query';
import { presenting } from '../../present/start';
import { withoutHistory } from '../../state/history';
import { currentChapter } from '../../state/link';
import { assign, type Item, type Values } from '../../state/store';
import { Button } from '../../ui/controls';
import type { Box } from '../../ui/marks';
import { state } from './state';
import { type Part, TOUR } from './tour-steps';

const initial = valuesOf((item) => item.field.initial);

/** The reader's settings before the tour. The last step and leaving restore them. */
let own = initial;

/** All values that the text of the tour depends on. */
function valuesOf(read: (item: Item<any, any>) => unknown): Values<typeof state> {
  const { tour: _, ...items } = state;
  return Object.fromEntries(Object.entries(items).map(([name, item]) => [name, read(item)]));
}

/** Whether the tour sets the chapter's state. At its last step, the reader's settings are back. */
function decides(step: number): boolean {
  return step > 0 && step < TOUR.length;
}

/** Goes to a step, counted from 1; 0 ends the tour. */
function goToStep(step: number): void {
  if (!decides(state.tour.value)) own = valuesOf((item) => item.value);
  const { unstable = false, residual = true } = TOUR[step - 1] ?? {};
  const values = decides(step) ? { ...initial, unstable, residual } : own;
  withoutHistory(() => assign(state, { ...values, tour: step }));
}

/** The current step. Embedded chapters and presentations do not show the tour. */
function shownStep(): number {
  return embedded === null && !presenting.value ? state.tour.value : 0;
}

const START = 'an-start-tour';

export function StartTour() {
  if (embedded !== null || presenting.value) return null;
  return (
    <span id={START}>
      <Button kind="primary" onClick={() => goToStep(1)}>
        {t`Start tour`}
      </Button>
    </span>
  );
}

function elementOf(step: number): Element | null {
  return document.getElementById(`an-${TOUR[step - 1].part}`);
}

function show(part: Element): void {
  const isTall = part.getBoundingClientRect().height > 0.55 * innerHeight;
  part.scrollIntoView({ block: isTall ? 'start' : 'center' });
}

/** Ends the tour. After its last step the keyboard focus returns to the button that starts it;
 * before, it moves to the part that the tour showed. */
function leave(): void {
  const step = state.tour.value;
  const part = elementOf(step);
  goToStep(0);
  if (step === TOUR.length) document.querySelector<HTMLElement>(`#${START} button`)?.focus();
  else part?.closest<HTMLElement>('[tabindex]')?.focus({ preventScroll: true });
}

export function Tour() {
  const step = shownStep();
  const box = useRef<HTMLDivElement>(null);
  const last = useRef<number | undefined>(undefined);

  useEffect(() => {
    const opened = last.current === undefined; // opened by a link: the page keeps the focus
    const started = last.current === 0;
    last.current = step;
    const elsewhere = !['', 'add-norm'].includes(currentChapter());
    if (step === 0 || (opened && elsewhere)) return;
    show(elementOf(step)!);
    const focusIsLost = document.activeElement?.matches('body, :disabled');
    if (!opened && (started || focusIsLost)) box.current!.focus({ preventScroll: true });
  }, [step]);

  useEffect(() => {
    if (step === 0) return;
    const press = (event: KeyboardEvent) => event.key === 'Escape' && leave();
    addEventListener('keydown', press);
    return () => removeEventListener('keydown', press);
  }, [step === 0]);

  // Another width moves every part. A change of height alone may be a phone's address bar.
  useEffect(() => {
    if (step === 0) return;
    let width = innerWidth;
    const resize = () => {
      if (innerWidth === width) return;
      width = innerWidth;
      requestAnimationFrame(() => show(elementOf(step)!)); // figures have been drawn by then
    };
    addEventListener('resize', resize);
    return () => removeEventListener('resize', resize);
  }, [step]);

  if (step === 0) return null;
  const { title, text } = TOUR[step - 1];
  const atEnd = step === TOUR.length;
  return (
    <div
      class="card an-tour"
      ref={box}
      role="dialog"
      aria-label={t`Guided tour`}
      aria-describedby="an-tour-text"
      tabIndex={-1}
    >
      <div id="an-tour-text" aria-live="polite">
        <p class="an-tour-title">
          <span class="an-tour-step">{t`${step} of ${TOUR.length}`}</span> {title}
        </p>
        <p>{text}</p>
      </div>
      <div class="buttons">
        <Button onClick={() => goToStep(step - 1)} disabled={step === 1}>
          {t`Back`}
        </Button>
        {atEnd ? (
          <Button key="done" kind="primary" onClick={leave}>
            {t`Done`}
          </Button>
        ) : (
          <>
            <Button kind="primary" onClick={() => goToStep(step + 1)}>
              {t`Next`}
            </Button>
            <Button onClick={leave}>{t`Leave`}</Button>
          </>
        )}
      </div>
    </div>
  );
}

function isLit(part: Part): boolean {
  const step = shownStep();
  return step > 0 && TOUR[step - 1].part === part;
}

/** A part of the chapter that the tour can highlight. */
export function TourPart(props: { part: Part; name: string; children: ComponentChildren }) {
  const { part, name, children } = props;
  return (
    <div
      id={`an-${part}`}
      class={`an-part an-${part}${isLit(part) ? ' an-lit' : ''}`}
      role="group"
      aria-label={name}
      tabIndex={-1}
    >
      {children}
    </div>
  );
}

/** A region of a drawing that the tour can highlight. */
export function Spot({ part, box }: { part: Part; box: Box }) {
  return (
    <rect id={`an-${part}`} class={isLit(part) ? 'an-spot an-lit' : 'an-spot'} {...box} rx={6} />
  );
}
