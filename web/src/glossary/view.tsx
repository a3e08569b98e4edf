// Terms in text, with their definitions, and the list of all terms.

import { createContext } from 'preact';
import { useContext, useEffect, useId, useMemo, useRef, useState } from 'preact/hooks';
import { t } from '../language/text';
import { TERMS } from './terms';
import { FirstUses, splitAtTerms } from './uses';
import './style.css';

/** The first uses of a chapter. Text outside chapters has none. */
export const Uses = createContext<FirstUses | undefined>(undefined);

/** A text in which the first use of each term has its definition. */
export function WithTerms({ text }: { text: string }) {
  const uses = useContext(Uses);
  const owner = useRef({}).current;
  useEffect(() => () => uses?.release(owner), []);
  const parts = useMemo(
    () => (uses ? splitAtTerms(text, (term) => uses.claim(term, owner)) : [{ text }]),
    [text],
  );
  return parts.map(({ text, term }, i) => (term ? <Use key={i} word={text} term={term} /> : text));
}

/** A word with its definition on hover, focus and tap. Escape, a second tap, and a tap on the definition, which may
 * cover other words, close it. */
function Use({ word, term }: { word: string; term: string }) {
  const [open, setOpen] = useState(false);
  const [shift, setShift] = useState(0);
  const id = useId();
  const tip = useRef<HTMLSpanElement>(null);
  const wasOpen = useRef(false); // before the tap, whose focus opens it
  useEffect(() => {
    if (!open) return setShift(0);
    const { left, right } = tip.current!.getBoundingClientRect();
    const over = Math.max(0, right - (document.documentElement.clientWidth - MARGIN));
    setShift(-Math.min(over, left - MARGIN));
  }, [open]);
  return (
    <span
      class="term"
      onPointerEnter={({ pointerType }) => pointerType === 'mouse' && setOpen(true)}
      onPointerLeave={({ pointerType }) => pointerType === 'mouse' && setOpen(false)}
      onKeyDown={({ key }) => key === 'Escape' && setOpen(false)}
    >
      <span
        class="term-word"
        role="button"
        tabIndex={0}
        aria-expanded={open}
        aria-describedby={open ? id : undefined}
        onFocus={() => setOpen(true)}
        onBlur={() => setOpen(false)}
        onPointerDown={() => (wasOpen.current = open)}
        onClick={() => setOpen(!wasOpen.current)}
      >
        {word}
      </span>
      {open && (
        <span
          class="term-tip"
          role="tooltip"
          id={id}
          ref={tip}
          style={{ translate: `${shift}px` }}
          onClick={() => setOpen(false)}
        >
          {TERMS.find(({ id }) => id === term)!.words}
        </span>
      )}
    </span>
  );
}

const MARGIN = 8; // pixels between a definition and the edge of the window

/** All terms with their definitions. */
export function Glossary() {
  return (
    <details class="glossary">
      <summary>
        <h2 id="glossary">{t`Glossary`}</h2> {t`${TERMS.length} terms`}
      </summary>
      <dl>
        {TERMS.map(({ id, name, words }) => (
          <div key={id}>
            <dt>{name}</dt>
            <dd>{words}</dd>
          </div>
        ))}
      </dl>
    </details>
  );
}
