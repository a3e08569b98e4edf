// The code of all steps. It stays in sight beside the cards; the lines of one step are highlighted.

import { signal } from '@preact/signals';
import type { NormOptions } from 'addnorm';
import { useEffect, useRef } from 'preact/hooks';
import { t } from '../../language/text';
import { Choice, CopyButton } from '../../ui/controls';
import { CODE_LABELS, listing, textOf } from './code';
import { state } from './state';

/** The highlighted step, from 1. */
const lit = signal(1);

/** Attributes of the card of a step: its lines are highlighted when the card crosses the middle of
 * the window, or has the pointer or the focus. */
export function lightWhenSeen(step: number) {
  const card = useRef<HTMLElement>(null);
  const light = () => void (lit.value = step);
  useEffect(() => {
    const observer = new IntersectionObserver(
      (entries) => entries.at(-1)!.isIntersecting && light(),
      { rootMargin: '-45% 0px -54% 0px' },
    );
    observer.observe(card.current!);
    return () => observer.disconnect();
  }, []);
  return { ref: card, onPointerEnter: light, onFocusIn: light };
}

export function StepCode({ options }: { options: NormOptions }) {
  const language = state.language.value;
  const code = listing(language, options);
  const name = CODE_LABELS[language];
  return (
    <div class="code st-code" data-step>
      <div class="controls">
        <Choice label={t`From scratch in`} item={state.language} labels={CODE_LABELS} />
        <CopyButton label={t`Copy`} text={() => textOf(code)} />
      </div>
      <pre class="card" tabIndex={0} role="region" aria-label={t`Step ${lit.value} in ${name}`}>
        <code>
          {code.flatMap((lines, step) =>
            lines.map((line, i) => (
              <Line
                key={`${step} ${i}`}
                line={line}
                number={i === 0 && isStep(step) ? step : undefined}
                lit={step === lit.value}
              />
            )),
          )}
        </code>
      </pre>
    </div>
  );
}

/** The listing has lines before step 1 and after step 4. */
const isStep = (part: number) => part >= 1 && part <= 4;

interface LineProps {
  line: string;
  number: number | undefined; // of the step that begins here
  lit: boolean;
}

/** A line. Its indentation is not highlighted. */
function Line({ line, number, lit }: LineProps) {
  const text = line.trimStart();
  return (
    <span class="st-line" data-number={number}>
      {line.slice(0, line.length - text.length)}
      {lit ? <mark>{text}</mark> : text}
      {'\n'}
    </span>
  );
}
