// The choice of the route through the page, and the parts that only one route has.

import type { ComponentChildren } from 'preact';
import { chapters, numberOf } from '../chapters';
import { t } from '../language/text';
import { presenting } from '../present/start';
import { route, SHORT } from '../state/route';
import { Choice } from './controls';

const LABELS = { short: t`15 minutes`, everything: t`Everything` };

export function RouteChoice() {
  const numbers = chapters
    .filter(({ source }) => SHORT.includes(source.id) && source.id !== 'quiz')
    .map(numberOf)
    .join(', ');
  return (
    <div class="route">
      <Choice label={t`Your route`} item={route} labels={LABELS} />
      <p class="hint">
        {route.value === 'short'
          ? t`Chapters ${numbers} and the quiz, with the main figures.`
          : t`All ${chapters.length} chapters. The short route has chapters ${numbers} and the
              quiz.`}
      </p>
    </div>
  );
}

/** Content that the short route leaves out. A presentation has it, because it has notes for it. */
export function Everything({ children }: { children: ComponentChildren }) {
  return (route.value === 'everything' || presenting.value) && <>{children}</>;
}
