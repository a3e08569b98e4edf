// The hero: the animation, the two switches, and a still, legible picture of every state.

import { readFileSync } from 'node:fs';
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

const switchesOn = (page: Page) =>
  page
    .getByRole('switch')
    .evaluateAll((all) => all.map((one) => (one as HTMLInputElement).checked));

test('once, Norm goes off by itself, the stream explodes, and it comes back', async () => {
  const page = await open('', { reducedMotion: false });
  expect(await verdict(page)).toBe('It gets through.');
  await expect.poll(() => verdict(page), { timeout: 5000 }).toBe('It explodes.');
  expect(await switchesOn(page)).toEqual([true, false]);
  await expect.poll(() => verdict(page), { timeout: 6000 }).toBe('It gets through.');
  expect(await switchesOn(page)).toEqual([true, true]);
  await page.waitForTimeout(2500);
  expect(await verdict(page)).toBe('It gets through.');
  expect(new URL(page.url()).hash).toBe('');
  expect(await page.getByRole('button', { name: 'Undo', exact: true }).isDisabled()).toBe(true);
});

test.each<[string, string, PageOptions]>([
  ['where the reader wants no motion', '', {}],
  ['where the link sets a state', '#?an.gamma=2', { reducedMotion: false }],
])('nothing goes off by itself %s', async (_, hash, options) => {
  const page = await open(hash, options);
  await page.waitForTimeout(2500);
  expect(await verdict(page)).toBe('It gets through.');
  expect(await switchesOn(page)).toEqual([true, true]);
});

async function demonstrating(): Promise<Page> {
  const page = await open('', { reducedMotion: false });
  await expect.poll(() => verdict(page), { timeout: 5000 }).toBe('It explodes.');
  return page;
}

test('an interaction before it prevents it', async () => {
  const page = await open('', { reducedMotion: false });
  await page.keyboard.press('Shift');
  await page.waitForTimeout(2500);
  expect(await verdict(page)).toBe('It gets through.');
});

test('an interaction during it ends it', async () => {
  const page = await demonstrating();
  await page.mouse.wheel(0, 1);
  await expect.poll(() => verdict(page)).toBe('It gets through.');
});

test('a switch that it shows as off is switched on', async () => {
  const page = await demonstrating();
  const { x, y } = (await page.locator('.switch', { hasText: 'Norm' }).boundingBox())!;
  await page.mouse.click(x + 20, y + 20); // without Playwright's wait for stillness
  await expect.poll(() => verdict(page)).toBe('It gets through.');
  expect(await switchesOn(page)).toEqual([true, true]);
});

test('a sentence of the reader’s own is measured, kept in the link, and limited', async () => {
  const page = await open();
  const field = page.getByRole('textbox', { name: 'Your own sentence' });
  const first = await picture(page);
  await field.fill('Übung macht den Meister');
  await page.locator('.hero-sentence').getByText('Ü').waitFor();
  await expect.poll(() => picture(page)).not.toBe(first);
  await page.waitForURL(/#\?hero\.text=/);
  const again = await open(new URL(page.url()).hash);
  await expect.poll(() => picture(again)).toBe(await picture(page));
  await field.fill('This sentence has more than thirty-two bytes.');
  await page.getByText('it must have from 2 to 32').waitFor();
  expect(await page.locator('.hero-sentence span').count()).toBe(23);
  await page.getByRole('button', { name: 'Reset all' }).click();
  expect(await field.inputValue()).toBe('What does a deep network forget?');
  await expect.poll(() => picture(page)).toBe(first);
});

test('a layer tells its three numbers to the pointer and to the keyboard', async () => {
  const page = await open('#?hero.norm=0');
  const layers = page.getByRole('slider', { name: 'Layer', exact: true });
  const shown = page.locator('.hero-reading');
  const row = async (curve: string, layer: number) =>
    Number(await page.locator(`.hero tr[data-curve=${curve}] td`).nth(layer).textContent());
  const expectLayer = async (layer: number) => {
    const words = await shown.locator('b').allTextContents();
    expect(Number(words[0].replaceAll(',', '')) / (await row('stream', layer))).toBeCloseTo(1, 2);
    expect(Number(words[2])).toBeCloseTo(await row('cosine', layer), 2);
  };
  expect(await shown.count()).toBe(0);
  const { x, y, width, height } = (await layers.boundingBox())!;
  await page.mouse.move(x + width / 2, y + height * (1 - 18 / 24));
  expect(await shown.locator('strong').textContent()).toBe('layer 18');
  await expectLayer(18);
  await page.mouse.move(x, y - 40);
  expect(await shown.count()).toBe(0);
  await layers.focus();
  await page.keyboard.press('ArrowUp');
  expect(await shown.locator('strong').textContent()).toBe('layer 19');
  await page.keyboard.press('Home');
  await expectLayer(0);
  expect(await layers.getAttribute('aria-valuetext')).toContain('layer 0, in, signal');
});

test('the hero is saved as a picture', async () => {
  const page = await open('', { theme: 'dark' });
  const [file] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('button', { name: 'Save this picture' }).click(),
  ]);
  expect(file.suggestedFilename()).toBe('add-norm-to-see-touch-and-try.png');
  const png = readFileSync(await file.path());
  const { width, height } = (await page.locator('.hero-lanes').boundingBox())!;
  expect(png.readUInt32BE(16)).toBe(width);
  expect(png.readUInt32BE(20)).toBeGreaterThan(height);
  expect(png.length).toBeGreaterThan(30_000); // not an empty canvas
});

test('“Start here” leads to the first chapter', async () => {
  const page = await open();
  await page.getByRole('link', { name: 'Start here' }).click();
  expect(new URL(page.url()).hash).toBe('#add-norm');
  const top = () => page.locator('#add-norm').evaluate((e) => e.getBoundingClientRect().top);
  await expect.poll(top).toBeLessThan(150);
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
