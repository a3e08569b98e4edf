// The tests that every build of the tutorial must pass.

import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { Page } from 'playwright-core';
import { describe, expect, test } from 'vitest';
import { LANGUAGE_NAMES } from '../src/language/language';
import { differences, looksOf } from './looks';
import { offered, translation } from './offered';
import { CHAPTERS, chapter, LONG, measured, openPage, type PageOptions } from './page';

/** The path of the tutorial as one file. `make tutorial` writes it; `make
 * test` does so before the tests. */
export const singleFile =
  process.env.SINGLE_FILE ??
  fileURLToPath(new URL('../../build/addnorm-tutorial.html', import.meta.url));
export const hasSingleFile = existsSync(singleFile);

type Open = typeof openPage;

const menuOf = (page: Page, language: string, label: string) =>
  page.getByRole('combobox', { name: translation(language, label), exact: true });

/** Waits until the hero has measured its stack and shows this verdict. */
const outcome = (page: Page, language: string, verdict: string) =>
  page.locator('.hero-outcome').getByText(translation(language, verdict)).waitFor();

/** Uses the page's first controls like a reader. `open` opens a page of this build like openPage(). */
export function testsOfControls(open: Open): void {
  test('the language menu opens the page in each language, and Back in the one before', async () => {
    const page = await open('#?hero.norm=0');
    let shown = 'en';
    const expectShown = async (language: string) => {
      await outcome(page, language, 'It explodes.');
      expect(await page.locator('html').getAttribute('lang')).toBe(language);
      expect(await menuOf(page, language, 'Language').inputValue()).toBe(language);
      expect(await menuOf(page, language, 'Theme').inputValue()).toBe('system');
      shown = language;
    };
    await expectShown('en');
    const [, ...others] = offered;
    for (const language of [...others, 'en']) {
      const menu = menuOf(page, shown, 'Language');
      expect(await menu.locator('option').allTextContents()).toEqual(Object.values(LANGUAGE_NAMES));
      await menu.selectOption(LANGUAGE_NAMES[language]);
      await expectShown(language);
    }
    for (const language of others.reverse()) {
      await page.goBack();
      await expectShown(language);
    }
  });

  test('the theme menu sets the theme, and shows it when the page is opened again', async () => {
    const page = await open();
    const menu = menuOf(page, 'en', 'Theme');
    const theme = () => page.evaluate(() => document.documentElement.dataset.theme);
    for (const name of ['dark', 'light', 'dark']) {
      await menu.selectOption(name);
      expect(await theme()).toBe(name);
    }
    await page.reload();
    await outcome(page, 'en', 'It gets through.');
    expect(await theme()).toBe('dark');
    expect(await menu.inputValue()).toBe('dark');
    expect(await menuOf(page, 'en', 'Language').inputValue()).toBe('en');
  });

  test('the switches of the hero look like switches, and switch', async () => {
    const page = await open();
    await outcome(page, 'en', 'It gets through.');
    for (const [name, verdict] of [
      ['Norm', 'It explodes.'],
      ['Add', 'It fades.'],
    ]) {
      const control = page.getByRole('switch', { name });
      const { width, height } = (await control.boundingBox())!;
      expect(width / height).toBeGreaterThan(1.5); // a knob has room to move
      await page.locator('.switch', { hasText: name }).click();
      expect(await control.isChecked()).toBe(false);
      await outcome(page, 'en', verdict);
    }
  });
}

const FIRST_SCREEN = 'header, .toolbar, nav, .goals, .closing, footer, .chapter-head';

const SCREENS: [string, PageOptions][] = [
  ['1280 px, light', {}],
  ['390 px by touch, dark', { width: 390, touch: true, theme: 'dark' }],
];

/** The single file has the chapter “A small trained model” without its network. */
const COMPARED = CHAPTERS.filter((id) => id !== 'model');

/** Checks that each element has the same style as in the served build. */
export function testsOfLooks(open: Open): void {
  const expectSameLooks = async (pages: Page[], selector: string) => {
    const [served, built] = await Promise.all(pages.map((page) => looksOf(page, selector)));
    expect(differences(served, built)).toEqual([]);
    expect(built.elements.length).toBe(served.elements.length);
    expect(built.elements.length).toBeGreaterThan(0);
  };

  describe.each(SCREENS)('%s', (_, options) => {
    test('the first screen looks as it is served', async () => {
      const pages = [await openPage('', options), await open('', options)];
      for (const page of pages) await outcome(page, 'en', 'It gets through.');
      await expectSameLooks(pages, FIRST_SCREEN);
    });

    test('a chapter in a frame looks as it is served', async () => {
      const chapterAlone = { ...options, heading: 'Quiz', level: 2 };
      const pages = [
        await openPage('?embed=quiz', chapterAlone),
        await open('?embed=quiz', chapterAlone),
      ];
      for (const page of pages) await page.locator('.katex').first().waitFor();
      await expectSameLooks(pages, '#app');
    });

    test.each(COMPARED)(
      '%s looks as it is served, on the screen and on paper',
      LONG,
      async (id) => {
        const pages = [await openPage(`#${id}`, options), await open(`#${id}`, options)];
        for (const page of pages) await measured(chapter(page, id));
        for (const media of ['screen', 'print'] as const) {
          for (const page of pages) await page.emulateMedia({ media });
          await expectSameLooks(pages, `#${id}`);
        }
      },
    );

    test('a presentation looks as it is served', LONG, async () => {
      const presented = { ...options, level: 0 };
      const pages = [
        await openPage('?present#quiz', presented),
        await open('?present#quiz', presented),
      ];
      for (const page of pages) {
        await page.locator('.presenter').waitFor();
        await page.locator('#quiz .katex').first().waitFor({ state: 'attached' });
      }
      await expectSameLooks(pages, '.presenter, #quiz');
    });
  });
}
