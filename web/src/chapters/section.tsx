// A chapter's section: its heading at once, its view when the reader comes near.

import type { FunctionComponent } from 'preact';
import { useMemo } from 'preact/hooks';
import { embedAddress, iframeOf } from '../embed/request';
import { ready } from '../kernels/current';
import { FirstUses } from '../glossary/uses';
import { Uses, WithTerms } from '../glossary/view';
import { Plain, t } from '../language/text';
import { embedded } from '../state/query';
import { route } from '../state/route';
import { resetState } from '../state/store';
import { Button, CopyButton, Failure } from '../ui/controls';
import { useNear } from '../ui/near';
import { room } from '../ui/room';
import { Everything } from '../ui/route';
import type { Chapter } from '.';

interface ChapterSectionProps {
  chapter: Chapter;
  number?: number; // absent if the chapter is shown alone
}

export function ChapterSection({ chapter, number }: ChapterSectionProps) {
  const { id, title, state } = chapter.source;
  const view = ready.value ? chapter.view.value : undefined;
  const element = useNear<HTMLElement>(ready.value, () => void chapter.load());
  const uses = useMemo(() => new FirstUses(), []);
  const reset = () => {
    resetState(state);
    view?.reset?.();
  };
  return (
    <section id={id} ref={element} class="chapter" tabIndex={-1} aria-labelledby={`${id}-title`}>
      <div class="chapter-head">
        <h2 id={`${id}-title`}>
          {number && <span class="number">{number}</span>} {title}
        </h2>
        <div class="chapter-buttons">
          {embedded === null && (
            <Everything>
              <a
                class="button"
                href={`?embed=${id}#${id}`}
                target="_blank"
                rel="noopener"
                aria-label={t`Open alone: ${title}`}
                onClick={(event) => (event.currentTarget.href = embedAddress(id))}
              >
                {t`Open alone`}
              </a>
              <CopyButton
                label={t`Copy embed`}
                text={() => iframeOf(id, `${title} · Add & Norm`, element.current!.offsetHeight)}
              />
            </Everything>
          )}
          <ResetChapter state={state} onClick={reset} />
        </div>
      </div>
      <Failure text={chapter.problem.value} />
      {view ? (
        <Plain.Provider value={WithTerms}>
          <Uses.Provider value={uses}>
            <Shown {...view} />
          </Uses.Provider>
        </Plain.Provider>
      ) : (
        <>
          <div class="chapter-room" style={room(chapter.source.height)} />
          <p class="handout-missing">
            {t`This chapter was not loaded. The page’s own Print button loads all chapters.`}
          </p>
        </>
      )}
    </section>
  );
}

/** A separate component. As a child of a plain element, the view's first tree and every later one
 * would stay in memory as long as the page is open. */
function Shown({ View }: { View: FunctionComponent }) {
  return <View />;
}

interface ResetChapterProps {
  state: Chapter['source']['state'];
  onClick(): void;
}

/** The button that resets a chapter. The short route shows it once there is something to reset. It
 * is a component of its own, because it is drawn again at every change of the state. */
function ResetChapter({ state, onClick }: ResetChapterProps) {
  const isShown =
    route.value === 'everything' || Object.values(state).some(({ isChanged }) => isChanged);
  return isShown ? <Button onClick={onClick}>{t`Reset chapter`}</Button> : null;
}
