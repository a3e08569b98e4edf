// The page in another language.

import { expect, test } from 'vitest';
import { CHAPTERS, LONG, chapter, findings, measured, openPage } from './page';
import { offered, translation } from './offered';
import { foreignNumbers } from './foreign-numbers';
import { inWideLetters, plainTexts, wide } from './wide-letters';

test.each(offered)('the page is there in %s, also on a phone', async (language) => {
  const page = await openPage(`?lang=${language}`, { width: 360 });
  await page.getByText(translation(language, 'It gets through.')).waitFor();
  const root = page.locator('html');
  expect(await root.getAttribute('lang')).toBe(language);
  expect(await root.evaluate(({ scrollWidth }) => scrollWidth)).toBeLessThanOrEqual(360);
  expect(await findings(page, 'header, .toolbar, nav, footer')).toEqual([]);
});

test('the page frame has no text that is not translated', async () => {
  const page = await openPage('?lang=de', inWideLetters);
  await page.getByText(wide('It gets through.')).waitFor();
  expect(await page.evaluate(() => document.documentElement.lang)).toBe('de');
  expect(await page.title()).toBe(wide('Add & Norm, to see, touch and try'));
  expect(await plainTexts(page.locator('header, .toolbar, nav, .closing, footer'))).toEqual([]);
  expect(await findings(page, 'header, .toolbar, nav, footer')).toEqual([]);
});

test.each(CHAPTERS)('%s has no text that is not translated', LONG, async (id) => {
  const page = await openPage(`?lang=de#${id}`, inWideLetters);
  const section = chapter(page, id);
  await measured(section);
  expect(await plainTexts(section)).toEqual([]);
  expect(await findings(page, `#${id}`)).toEqual([]);
});

test.each(['hero', ...CHAPTERS])('%s has decimal commas in German', LONG, async (id) => {
  const page = await openPage(id === 'hero' ? '?lang=de' : `?lang=de#${id}`);
  await page.getByText(translation('de', 'It gets through.')).waitFor();
  const section = id === 'hero' ? page.locator('.hero') : chapter(page, id);
  await measured(section);
  const texts = await section.evaluate((part) => {
    const walker = document.createTreeWalker(part, NodeFilter.SHOW_TEXT);
    const found: string[] = [];
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      if (!node.parentElement!.closest('code, pre, textarea, style, annotation')) {
        found.push(node.textContent!);
      }
    }
    return found;
  });
  expect(foreignNumbers(texts)).toEqual([]);
});

test('a presentation has no text that is not translated', LONG, async () => {
  const page = await openPage('?lang=de&present#backward', { ...inWideLetters, level: 0 });
  await page.getByText(wide('Notes window')).waitFor();
  for (const key of ['n', 'g', '?']) {
    await page.keyboard.press(key);
    expect(await plainTexts(page.locator('.presenter')), key).toEqual([]);
  }
  const opened = page.context().waitForEvent('page');
  await page.keyboard.press('w');
  const speaker = await opened;
  await speaker.locator('.speaker-note').waitFor();
  expect(await plainTexts(speaker.locator('.speaker'))).toEqual([]);
});

test('the menu offers the languages, and keeps the state', async () => {
  const page = await openPage('?lang=de#highway?hw.layers=6', inWideLetters);
  const menu = page.getByLabel(wide('Language'));
  expect(await menu.inputValue()).toBe('de');
  await menu.selectOption('English');
  await page.getByRole('heading', { name: 'The highway' }).waitFor();
  expect(page.url()).toMatch(/\?lang=en#highway\?hw.layers=6$/);
  expect(await page.evaluate(() => document.documentElement.lang)).toBe('en');
});

test('an embedded chapter and its link to the whole page keep the language', async () => {
  const page = await openPage('?lang=de&embed=highway#highway', {
    ...inWideLetters,
    heading: wide('The highway'),
    level: 2,
  });
  expect(await plainTexts(page.locator('.embed-source'))).toEqual([]);
  const href = await page.locator('.embed-source a').getAttribute('href');
  expect(new URL(href!).search).toBe('?lang=de');
});

test('the browser’s language is taken where the address names none', async () => {
  const before = () =>
    Object.defineProperty(navigator, 'languages', { get: () => ['fr', 'de-AT', 'en'] });
  const page = await openPage('', { ...inWideLetters, before });
  expect(await page.evaluate(() => document.documentElement.lang)).toBe('de');
});
