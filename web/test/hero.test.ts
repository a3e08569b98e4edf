// The hero: the animation, the two switches, and a still, legible picture of every state.

import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { LONG, findings, openPage, type PageOptions } from './page';

const outcome = (page: Page) => page.locator('.hero-outcome');

async function open(hash = '', options: PageOptions = {}): Promise<Page> {
  const page = await openPage(hash, options);
  await outcome(page).getByText('It').first().waitFor();
  return page;
}

const verdict = (page: Page) => outcome(page).locator('strong').textContent();

/** A hash of the canvas. */
const picture = (page: Page) =>
  page.locator('.hero-lanes').evaluate((canvas: HTMLCanvasElement) => canvas.toDataURL());

test('flips of the switches, by mouse and by keyboard, are measured and said', async () => {
  const page = await open();
  const [add, norm] = ['Add', 'Norm'].map((name) => page.getByRole('switch', { name }));
  expect(await verdict(page)).toBe('It gets through.');
  const carries = await picture(page);
  await add.click();
  await expect.poll(() => verdict(page)).toBe('It collapses.');
  expect(await picture(page)).not.toBe(carries);
  await norm.focus();
  await page.keyboard.press('Space');
  await expect.poll(() => verdict(page)).toBe('It fades.');
  await page.waitForTimeout(500); // faster changes are one gesture, which Undo reverts together
  await add.check();
  await expect.poll(() => verdict(page)).toBe('It explodes.');
  await page.getByRole('button', { name: 'Undo' }).click();
  await expect.poll(() => verdict(page)).toBe('It fades.');
  await page.getByRole('button', { name: 'Reset all' }).click();
  await expect.poll(() => verdict(page)).toBe('It gets through.');
  expect(await picture(page)).toBe(carries);
});

test.each([1280, 390])('flips of the switches move nothing at %i px', async (width) => {
  const page = await open('', { width });
  const places = () =>
    page
      .locator('.switch, .hero-layer, .hero-place dt, .hero-place dd, .hero-lanes, .toolbar')
      .evaluateAll((all) =>
        all.map((one) => {
          const { x, y } = one.getBoundingClientRect();
          return `${one.className || one.localName} ${Math.round(x)} ${Math.round(y)}`;
        }),
      );
  const first = await places();
  expect(first.length).toBeGreaterThan(15);
  let said = await outcome(page).textContent();
  for (const name of ['Norm', 'Add', 'Norm']) {
    await page.getByRole('switch', { name }).click();
    await expect.poll(() => outcome(page).textContent()).not.toBe(said);
    said = await outcome(page).textContent();
    expect(await places(), said!).toEqual(first);
  }
});

test('the numbers beside the ends are those of the table', async () => {
  const page = await open('#?hero.norm=0');
  expect(await verdict(page)).toBe('It explodes.');
  const shown = await page.locator('.hero-place').first().locator('dd').allTextContents();
  const last = page.locator('.hero .numbers tr[data-curve] td:last-child');
  const [stream, gradient, cosine] = (await last.allTextContents()).map(Number);
  expect(Number(shown[0].replaceAll(',', '')) / stream).toBeCloseTo(1, 2);
  expect(Number(shown[1]) / gradient).toBeCloseTo(1, 2);
  expect(Number(shown[2])).toBeCloseTo(cosine, 2);
});

test('moves while it is in sight, and stands still for who wants that', LONG, async () => {
  const page = await open('', { reducedMotion: false });
  const changes = async () => {
    const before = await picture(page);
    await page.waitForTimeout(300);
    return before !== (await picture(page));
  };
  await expect.poll(changes).toBe(true);
  await page.evaluate(() => scrollTo(0, document.body.scrollHeight));
  await expect.poll(changes).toBe(false);
  await page.evaluate(() => scrollTo(0, 0));
  await expect.poll(changes).toBe(true);
  await page.emulateMedia({ reducedMotion: 'reduce' });
  await expect.poll(changes).toBe(false);
});

test.each([360, 390, 1920])(
  'at %d px nothing sticks out, axe finds nothing',
  LONG,
  async (width) => {
    const page = await open('#?hero.add=0', { width });
    const scrollWidth = await page.evaluate(() => document.documentElement.scrollWidth);
    expect(scrollWidth).toBeLessThanOrEqual(width);
    for (const colorScheme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme });
      expect(await findings(page, '.hero')).toEqual([]);
    }
  },
);
