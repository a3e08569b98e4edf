// The printed page: the preparation by Print, and Chromium's PDF.

import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { hasSingleFile, singleFile } from './builds';
import { LONG, openPage, type PageOptions } from './page';

const WIDTH = (180 / 25.4) * 96; // the width of A4 between its margins, in pixels

const EVERYTHING = 'All 12 chapters';

/** The page at the moment when the browser is asked to print. */
async function printed(options: PageOptions = {}, what = EVERYTHING): Promise<Page> {
  const page = await openPage('#highway?hw.layers=6', {
    ...options,
    before: () => (window.print = () => (document.title = 'printed')),
  });
  await page.locator('summary', { hasText: 'Print' }).click();
  await page.getByRole('button', { name: what, exact: true }).click();
  await page.waitForFunction(() => document.title === 'printed', undefined, { timeout: 60_000 });
  return page;
}

async function expectHandout(page: Page): Promise<void> {
  expect(await page.locator('.chapter-room, .wait').count()).toBe(0);
  const source = await page.locator('.handout-source').textContent();
  expect(source).toBe(
    `This page in its current state: ${new URL('#?hw.layers=6', page.url()).href}`,
  );
  await page.evaluate(() => dispatchEvent(new Event('beforeprint')));
  await page.emulateMedia({ media: 'print' });
  for (const selector of [
    'nav',
    '.toolbar',
    'canvas',
    '.button',
    'input[type=range]',
    '.save-menu',
    '.handout-missing',
  ]) {
    expect(await page.locator(`${selector} >> visible=true`).count(), selector).toBe(0);
  }
  const ground = () => getComputedStyle(document.documentElement).getPropertyValue('--text');
  expect(await page.evaluate(ground)).toBe('#172033'); // from the light theme
  const widths = await page
    .locator('.figure svg')
    .evaluateAll((all) => all.map((svg) => svg.getBoundingClientRect().width));
  expect(widths.filter((width) => width > 0).length).toBeGreaterThan(15);
  expect(Math.max(...widths)).toBeLessThanOrEqual(WIDTH + 1);
  for (const question of await page.locator('.guess .choice').all()) {
    expect(await question.locator('label >> visible=true').count()).toBeGreaterThan(2);
    const isOpen = (await question.locator('.handout-answer').count()) === 0; // needs training
    if (!isOpen) expect(await question.innerText()).toMatch(/Answer: \S/);
  }
  const asked = page.locator(
    ['backward', 'geometry', 'lanes'].map((id) => `#${id} .guess .choice`).join(),
  );
  expect(await asked.count()).toBe(4);
  expect(await page.locator('#backward .guess').innerText()).toContain('Answer: Zero');
  expect(await page.locator('#quiz').innerText()).toContain('Answers: 1 b, 2 d');
  const breaks = await page
    .locator('.figure')
    .evaluateAll((all) => all.map((figure) => getComputedStyle(figure).breakInside));
  expect(new Set(breaks)).toEqual(new Set(['avoid']));
}

test('all chapters are there, light, without controls, as wide as the paper', LONG, async () => {
  const page = await printed({ theme: 'dark' });
  expect(await page.locator('#model [data-byte]').count()).toBe(8); // loaded last
  await expectHandout(page);
  const settings = page.locator('#highway .controls');
  expect(await settings.innerText()).toMatch(/Layers\s*6/);
  await page.emulateMedia({ media: null });
  await page.evaluate(() => dispatchEvent(new Event('afterprint')));
  expect(await page.locator('nav').isVisible()).toBe(true);
  expect(await page.evaluate(() => document.documentElement.dataset.theme)).toBe('dark');
});

test('the PDF has every chapter and a moderate number of pages', LONG, async () => {
  const page = await printed();
  const pdf = (await page.pdf({ preferCSSPageSize: true, printBackground: true })).toString(
    'latin1',
  );
  const pages = pdf.match(/\/Type \/Page\b/g)!.length;
  expect(pages).toBeGreaterThan(12);
  expect(pages).toBeLessThan(60);
});

test('one chapter is printed alone, and the other chapters are not even loaded', async () => {
  const page = await printed({}, 'This chapter: The highway');
  await page.evaluate(() => dispatchEvent(new Event('beforeprint')));
  await page.emulateMedia({ media: 'print' });
  expect(await page.locator('.chapter >> visible=true').count()).toBe(1);
  expect(await page.locator('#highway').isVisible()).toBe(true);
  expect(await page.locator('#highway :is(.chapter-room, .wait)').count()).toBe(0);
  expect(await page.locator('#lab .chapter-room').count()).toBe(1);
  for (const other of ['.hero', '.goals', '.closing']) {
    expect(await page.locator(other).isVisible(), other).toBe(false);
  }
  expect(await page.locator('.handout-source').innerText()).toMatch(/#highway\?hw\.layers=6$/);
  const pdf = (await page.pdf({ preferCSSPageSize: true })).toString('latin1');
  expect(pdf.match(/\/Type \/Page\b/g)!.length).toBeLessThan(8);
  await page.emulateMedia({ media: null });
  await page.evaluate(() => dispatchEvent(new Event('afterprint')));
  expect(await page.locator('.hero').isVisible()).toBe(true);
  expect(await page.locator('.chapter >> visible=true').count()).toBe(12);
});

test('the browser’s own command says what is missing', async () => {
  const page = await openPage();
  await page.emulateMedia({ media: 'print' });
  expect(await page.locator('#lab .handout-missing').isVisible()).toBe(true);
});

test.skipIf(!hasSingleFile)('the one file prints as well', LONG, async () => {
  await expectHandout(await printed({ file: singleFile }));
});
