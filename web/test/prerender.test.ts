// The build renders the first screen in English, in the system's theme and with initial values.
// After its script has run, the page must equal one that was not prerendered.

import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { translation } from './offered';
import { openPage, type PageOptions } from './page';

/** Returns a line for each element outside the chapters' views: its
 * attributes, control state and text. */
function tree(page: Page): Promise<string[]> {
  return page.evaluate(() => {
    const STATE = ['value', 'checked', 'selected'] as const; // the attributes are initial values
    const linesOf = (element: Element): string[] => {
      const attributes = [...element.attributes]
        .filter(({ name }) => !STATE.some((state) => state === name))
        .map(({ name, value }) =>
          name === 'style' ? (element as HTMLElement).style.cssText : `${name}="${value}"`,
        );
      const state = element.matches('input, select, option')
        ? STATE.map((name) => String((element as HTMLInputElement & HTMLOptionElement)[name]))
        : [];
      const text = [...element.childNodes].map((node) =>
        node.nodeType === Node.TEXT_NODE ? node.textContent! : node.nodeType,
      );
      const isView = (child: Element) =>
        element.matches('.chapter') && !child.matches('.chapter-head');
      const children = [...element.children].filter((child) => !isView(child));
      const line = [element.localName, ...attributes.sort(), ...state].join(' ');
      const words = text.join('').replace(/\d+ ms/, '… ms');
      return [`${line}: ${words}`, ...children.flatMap(linesOf)];
    };
    return linesOf(document.getElementById('app')!);
  });
}

/** Opens the page, with or without the prerendered first screen. */
function open(address: string, options: PageOptions, isPrerendered: boolean): Promise<Page> {
  const without = (html: string) => html.replace(/(<div id="app").*?(<noscript>)/s, '$1></div>$2');
  const changed = { '**/': without, '**/\\?*': without };
  return openPage(address, isPrerendered ? options : { ...options, changed });
}

const inFrame: PageOptions = { heading: 'Quiz', level: 2 };

test.each<[string, string, PageOptions]>([
  ['as it is', '', {}],
  [
    'with the theme that the reader has chosen',
    '',
    { before: () => (localStorage.theme = 'dark') },
  ],
  ['with the theme of the system', '', { theme: 'dark' }],
  ['with the theme of the address', '?theme=light', { theme: 'dark' }],
  ['with the state of the address', '#?hero.add=0&an.gamma=2', {}],
  ['with a mangled address', '?lang=xx&theme=xx#nochapter?hero.add=x', {}],
  ['in German', '?lang=de', {}],
  ['in Chinese, dark', '?lang=zh&theme=dark#?hero.norm=0', {}],
  ['with motion', '', { reducedMotion: false }],
  ['for a reader who does not save data', '', { everything: true }],
  ['on a phone', '', { width: 390, touch: true }],
  ['in a frame', '?embed=quiz', inFrame],
  ['in a frame, hidden in parts', '?embed=quiz&hide=source&theme=dark', inFrame],
  ['as a presentation', '?present#quiz', { level: 0 }],
])('the page is the same without its prerendered first screen, %s', async (_, address, options) => {
  const pages = [await open(address, options, false), await open(address, options, true)];
  for (const page of pages) {
    await page.waitForFunction(() => !document.querySelector('.hero-outcome:not(:has(strong))'));
    await page.waitForLoadState('networkidle');
    await page.keyboard.press('Shift'); // ends the hero's demonstration
  }
  const expected = await tree(pages[0]);
  expect(expected.length).toBeGreaterThan(5);
  await expect.poll(() => tree(pages[1])).toEqual(expected);
});

test('the language menu opens the page in another language, also before the script has run', async () => {
  const waits = (script: string) => `await new Promise(() => {});${script}`;
  const options = { changed: { '**/assets/index-*.js': waits } };
  const page = await openPage('#?hero.norm=0', options);
  expect(await page.locator('[data-prerendered]').count()).toBe(1);
  await page.getByRole('combobox', { name: 'Language' }).selectOption('Deutsch');
  await page.waitForURL(/\?lang=de#\?hero\.norm=0$/);
  expect(await page.locator('html').getAttribute('lang')).toBe('de');
});

test('the keyboard chooses a language in the menu', async () => {
  const page = await openPage();
  await page.waitForFunction(() => !document.querySelector('[data-prerendered]'));
  await page.getByRole('combobox', { name: 'Language' }).press('D');
  await page.waitForURL(/\?lang=de/);
  await page.getByText(translation('de', 'It gets through.')).waitFor();
  expect(await page.locator('html').getAttribute('lang')).toBe('de');
});
