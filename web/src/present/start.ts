// Starts and ends a presentation: full screen, one step of a chapter at a time.

import { effect, signal } from '@preact/signals';
import type { FunctionComponent } from 'preact';
import { goTo } from '../state/link';
import { embedded, query } from '../state/query';
import { chapterInView } from '../ui/in-view';
import './style.css';

export const presenting = signal(query.has('present') && embedded === null);

/** The presenter, loaded with the first presentation, together with the notes. */
export const presenter = signal<FunctionComponent | undefined>(undefined);

effect(() => {
  if (!presenting.value || globalThis.document === undefined) return;
  document.documentElement.dataset.view = 'present';
  void import('./view').then(({ Presenter }) => (presenter.value = Presenter));
  return () => delete document.documentElement.dataset.view;
});

/** Starts at the visible chapter. Browsers allow full screen only in response to a click. */
export function present(): void {
  if (chapterInView.value !== '') goTo(chapterInView.value);
  presenting.value = true;
  fillScreen();
}

export function fillScreen(): void {
  void document.documentElement.requestFullscreen?.().catch(() => {}); // the window is enough
}

export function leaveFullScreen(): void {
  if (document.fullscreenElement) void document.exitFullscreen().catch(() => {}); // already left
}
