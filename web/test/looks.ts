// Computed styles of a page's elements, for comparing two builds of the page.

import type { Page } from 'playwright-core';

export interface Looks {
  elements: { name: string; style: number }[];
  styles: string[]; // each a line for each property
}

/** Returns the computed styles of the elements that a selector finds, of their descendants, and of
 * all ::before and ::after. Shapes and positions in drawings are attributes and are left out. */
export function looksOf(page: Page, selector: string): Promise<Looks> {
  return page.evaluate((selector) => {
    const DRAWN = /^(--|d$|c?[xy]$|r[xy]?$|transform)/;
    const styles = new Map<string, number>();
    const numberOf = (style: string) => {
      if (!styles.has(style)) styles.set(style, styles.size);
      return styles.get(style)!;
    };
    const computed = (element: Element) =>
      [...element.computedStyleMap()].map(([name, values]) => [name, [...values].join()]);
    const ofPseudo = (element: Element, pseudo: string) => {
      const style = getComputedStyle(element, pseudo);
      const isThere = !['none', 'normal'].includes(style.content);
      return isThere ? [...style].map((name) => [name, style.getPropertyValue(name)]) : [];
    };
    const lines = (style: string[][]) =>
      style
        .filter(([name]) => !DRAWN.test(name))
        .map((property) => property.join(': '))
        .join('\n');
    const found = document.querySelectorAll(selector);
    const all = new Set([...found].flatMap((part) => [part, ...part.querySelectorAll('*')]));
    const elements = [...all].flatMap((element) => {
      const name = [element.localName, ...element.classList].join('.');
      return [
        { name, style: numberOf(lines(computed(element))) },
        ...['::before', '::after'].map((pseudo) => ({
          name: name + pseudo,
          style: numberOf(lines(ofPseudo(element, pseudo))),
        })),
      ];
    });
    return { elements, styles: [...styles.keys()] };
  }, selector);
}

/** Lists the properties that differ between `found` and `expected`, once for each kind of element. */
export function differences(expected: Looks, found: Looks): string[] {
  const all = found.elements.flatMap(({ name, style }, i) => {
    const other = expected.elements[i];
    if (other?.name !== name) return [`${name} stands in place of ${other?.name}`];
    const lines = new Set(expected.styles[other.style].split('\n'));
    const own = found.styles[style].split('\n');
    return own.filter((line) => !lines.has(line)).map((line) => `${name} has ${line}`);
  });
  return [...new Set(all)].slice(0, 30);
}
