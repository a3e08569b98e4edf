// The two routes through the page: their chapters, their length and the number of their controls.

import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { CHAPTERS, chapter, everyChapter, measured, openPage } from './page';

const SHORT = ['add-norm', 'step-by-step', 'highway', 'placement', 'quiz'];
const SCREEN = { width: 1280, height: 800 };

const route = (page: Page, name: '15 minutes' | 'Everything') =>
  page.getByRole('group', { name: 'Your route' }).getByRole('radio', { name });

const shown = (page: Page) =>
  page.locator('section.chapter').evaluateAll((all) => all.map(({ id }) => id));

/** Opens a route with all its chapters loaded and measured. */
async function loaded(query: string): Promise<Page> {
  const page = await openPage(query, { ...SCREEN, everything: true });
  await everyChapter(page);
  await measured(page.locator('main'));
  return page;
}

const screens = (page: Page) =>
  page.evaluate(() => document.documentElement.scrollHeight / innerHeight);

/** The controls that a reader sees and can use. A question and its answers are one, and so are the bars of a
 * figure. */
async function controls(page: Page): Promise<number> {
  return page.evaluate(() => {
    const all = document.querySelectorAll<HTMLElement>(
      'button, input, select, textarea, summary, [role=slider], [role=spinbutton]',
    );
    const seen = [...all].filter((control) => {
      const isMenu = control.closest('.save-menu') !== null; // it appears at its figure alone
      return (
        !isMenu &&
        !control.matches(':disabled') &&
        control.checkVisibility({ contentVisibilityAuto: true })
      );
    });
    const groups = seen.map((control) => {
      if (control.matches('[type=radio]')) return control.closest('fieldset')!;
      if (control.matches('[role=slider]')) return control.closest('figure')!;
      return control;
    });
    return new Set(groups).size;
  });
}

test('the short route has five chapters with their numbers, and a link keeps it', async () => {
  const page = await openPage();
  expect(await shown(page)).toEqual(CHAPTERS);
  await route(page, '15 minutes').check();
  expect(await shown(page)).toEqual(SHORT);
  const contents = page.getByRole('navigation', { name: 'Chapters' }).locator('li');
  expect(await contents.evaluateAll((all) => all.map((li) => (li as HTMLLIElement).value))).toEqual(
    [1, 2, 4, 5, 11],
  );
  expect(await page.locator('#quiz .number').textContent()).toBe('11');
  await expect.poll(() => page.url()).toContain('page.route=short');
  const again = await openPage(new URL(page.url()).hash);
  expect(await shown(again)).toEqual(SHORT);
  await again.getByRole('button', { name: 'Reset all' }).click();
  expect(await shown(again)).toEqual(SHORT);
  await again.getByRole('button', { name: 'Print' }).or(again.getByText('Print')).first().click();
  expect(await again.getByText('All 5 chapters').count()).toBe(1);
});

test('a link to a chapter that the short route lacks shows everything', async () => {
  const page = await openPage('#quiz?page.route=short&qz.q1=b');
  await chapter(page, 'quiz').getByRole('link', { name: 'Which axes' }).click();
  await expect.poll(() => shown(page)).toEqual(CHAPTERS);
  await expect.poll(() => page.url()).toMatch(/#axes\?(?!.*page\.route)/);
  await expect
    .poll(() => chapter(page, 'axes').evaluate((e) => Math.abs(e.getBoundingClientRect().top)))
    .toBeLessThan(100);
  const direct = await openPage('#lanes?page.route=short');
  expect(await shown(direct)).toEqual(CHAPTERS);
});

test('the short route has at most 14 screens and 60 controls', async () => {
  const page = await loaded('#?page.route=short');
  expect(await screens(page)).toBeLessThanOrEqual(14);
  expect(await controls(page)).toBeLessThanOrEqual(60);
});

test('everything has at most 36 screens', async () => {
  const page = await loaded('');
  expect(await screens(page)).toBeLessThanOrEqual(36);
});

test('folded content opens by its summary, by a link that changes it, and in a presentation', async () => {
  const fold = (page: Page) =>
    chapter(page, 'step-by-step').locator('.advanced', { hasText: 'ε and the variance' });
  const isOpen = (page: Page) => fold(page).evaluate((e) => (e as HTMLDetailsElement).open);
  const page = await openPage('#step-by-step');
  expect(await isOpen(page)).toBe(false);
  expect(await fold(page).getByLabel('1e-12').isVisible()).toBe(false);
  await fold(page).locator('summary').click();
  expect(await fold(page).getByLabel('1e-12').isVisible()).toBe(true);
  expect(await isOpen(await openPage('#step-by-step?st.epsilon=1e-12'))).toBe(true);
  const presented = await openPage('?present#step-by-step', { level: 0 });
  await expect.poll(() => isOpen(presented)).toBe(true);
});
