// The first use of each term in a chapter.

import { TERMS } from './terms';

/** The components that show the first use of each term of a chapter. */
export class FirstUses {
  readonly #owners = new Map<string, object>();

  /** Whether the owner has the first use of a term. A term without an owner becomes its own. */
  claim(term: string, owner: object): boolean {
    if (!this.#owners.has(term)) this.#owners.set(term, owner);
    return this.#owners.get(term) === owner;
  }

  /** Frees the terms of an owner that is no longer shown. */
  release(owner: object): void {
    for (const [term, other] of this.#owners) if (other === owner) this.#owners.delete(term);
  }
}

/** A part of a text; `term` is the id of the term that it is a use of. */
export interface Part {
  text: string;
  term?: string;
}

/** Splits a text at the first use of each term that `isFirst` accepts. */
export function splitAtTerms(text: string, isFirst: (term: string) => boolean): Part[] {
  const parts: Part[] = [];
  const used = new Set<string>();
  let end = 0;
  for (const { 0: form, index } of text.matchAll(FORMS)) {
    const term = TERM_OF.get(form.toLowerCase())!;
    if (used.has(term) || !isFirst(term)) continue;
    used.add(term);
    if (index > end) parts.push({ text: text.slice(end, index) });
    parts.push({ text: form, term });
    end = index + form.length;
  }
  if (end < text.length) parts.push({ text: text.slice(end) });
  return parts;
}

const TERM_OF = new Map(
  TERMS.flatMap(({ id, forms }) => forms.split('|').map((form) => [form.toLowerCase(), id])),
);

const FORMS = patternOf([...TERM_OF.keys()]);

/** Matches whole words, longer forms first. Chinese has no spaces between words. */
function patternOf(forms: string[]): RegExp {
  const longestFirst = forms.sort((a, b) => b.length - a.length);
  const hasSpaces = (form: string) => !/\p{Script=Han}/u.test(form);
  const alternatives = longestFirst.map((form) =>
    hasSpaces(form) ? `(?<![\\p{L}\\p{M}_-])${form}(?![\\p{L}\\p{M}_-])` : form,
  );
  return new RegExp(alternatives.join('|'), 'giu');
}
