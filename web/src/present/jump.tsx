// All steps of all chapters as buttons.

import { useEffect, useRef } from 'preact/hooks';
import { onRoute } from '../chapters';
import { t } from '../language/text';
import { notesOf } from './notes';
import { goToStep, place, step, steps } from './place';

/** The number of steps of a chapter. For chapters that are not loaded, it is the number of notes. */
function stepCount(chapter: number): number {
  if (chapter === place.value && steps.value.length > 0) return steps.value.length;
  return notesOf(onRoute.value[chapter].source.id).length;
}

export function Jump({ close }: { close(): void }) {
  const list = useRef<HTMLElement>(null);
  useEffect(() => list.current!.querySelector<HTMLElement>('[aria-current]')?.focus(), []);
  const go = (chapter: number, to: number) => {
    close();
    goToStep(chapter, to);
  };
  return (
    <nav
      class="presenter-panel presenter-jump"
      aria-label={t`All steps`}
      ref={list}
      onKeyDown={walk}
    >
      <ol>
        {onRoute.value.map(({ source: { id, title } }, c) => (
          <li key={id}>
            <span id={`jump-${id}`}>{title}</span>
            <div role="group" aria-labelledby={`jump-${id}`}>
              {Array.from({ length: stepCount(c) }, (_, i) => (
                <button
                  key={i}
                  type="button"
                  class="button"
                  aria-label={t`${title}, step ${i + 1}`}
                  aria-current={c === place.value && i === step.value ? 'step' : undefined}
                  onClick={() => go(c, i)}
                >
                  {i + 1}
                </button>
              ))}
            </div>
          </li>
        ))}
      </ol>
    </nav>
  );
}

/** Moves the focus by arrow keys: left and right by one step, up and down by one chapter. */
function walk(event: KeyboardEvent) {
  const now = event.target as HTMLElement;
  const buttons = [...(event.currentTarget as Element).querySelectorAll('button')];
  const firsts = buttons.filter((button) => button.matches(':first-child'));
  const group = firsts.findIndex((first) => first.parentElement === now.parentElement);
  const at = buttons.findIndex((button) => button === now);
  const to = {
    ArrowRight: buttons[at + 1],
    ArrowLeft: buttons[at - 1],
    ArrowDown: firsts[group + 1],
    ArrowUp: firsts[group - 1],
  }[event.key];
  if (at < 0 || !event.key.startsWith('Arrow')) return;
  event.preventDefault(); // the presentation must not move on
  to?.focus();
}
