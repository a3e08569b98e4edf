// A single chapter, for a frame of another page.

import { useEffect, useRef } from 'preact/hooks';
import { chapters } from '../chapters';
import { ChapterSection } from '../chapters/section';
import { failure } from '../kernels/current';
import { t } from '../language/text';
import { wholePageAt } from '../state/link';
import { embedded } from '../state/query';
import { Failure, LinkComplaints } from '../ui/controls';
import { complaint, hidden, reportHeight } from './request';
import './style.css';

export function Embed() {
  const page = useRef<HTMLDivElement>(null);
  useEffect(() => reportHeight(page.current!), []);
  const chapter = chapters.find(({ source }) => source.id === embedded);
  useEffect(() => {
    if (chapter === undefined) return;
    document.title = `${chapter.source.title} · Add & Norm`;
    void chapter.load();
  }, []);
  return (
    <div class="page embed" ref={page} data-hide={hidden.join(' ')}>
      <main>
        <Failure text={complaint(chapters.map(({ source }) => source.id))} />
        <Failure text={failure.value} />
        <LinkComplaints />
        {chapter && <ChapterSection chapter={chapter} />}
      </main>
      {chapter && <Source of={chapter.source.id} />}
    </div>
  );
}

/** A link to the whole page. Its address is computed at the click, because
 * the state may have changed. */
function Source({ of: chapter }: { of: string }) {
  return (
    <p class="embed-source">
      <a
        href={wholePageAt(chapter)}
        target="_blank"
        rel="noopener"
        onClick={(event) => (event.currentTarget.href = wholePageAt(chapter))}
      >
        {t`Open in the tutorial Add & Norm`}
      </a>
    </p>
  );
}
