// The presenter: one step at a time.

import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { hasSingleFile, singleFile } from './builds';
import { LONG, chapter, findings, openPage, type PageOptions, vector } from './page';

const bar = (page: Page) => page.getByRole('toolbar', { name: 'Presentation' });
/** "Backward step 1 of 4". */
const place = async (page: Page) =>
  (await bar(page).getByRole('status').textContent())!.replace(/^\d+ /, '');

/** The visible headings. */
const headings = (page: Page) => page.locator('h2:visible, h3:visible').allTextContents();

async function present(query = '', options: PageOptions = {}): Promise<Page> {
  const page = await openPage(`?present${query}`, { level: 0, ...options });
  await expect.poll(() => bar(page).count()).toBe(1);
  await expect.poll(() => place(page)).toContain('step');
  return page;
}

test('starts from the toolbar at the chapter in sight, and Escape goes back to the page', async () => {
  const page = await openPage('#backward');
  await page.locator('nav [aria-current]', { hasText: 'Backward' }).waitFor();
  // Playwright's click would first scroll the page, because the toolbar is sticky.
  const button = page.getByRole('button', { name: 'Present', exact: true });
  const { x, y } = (await button.boundingBox())!;
  await page.mouse.click(x + 5, y + 5);
  await expect.poll(() => place(page)).toBe('Backward step 1 of 4');
  expect(await page.locator('.hero').isVisible()).toBe(false);
  expect(await page.getByRole('navigation').count()).toBe(0);
  expect(await page.evaluate(() => document.fullscreenElement !== null)).toBe(true);
  await page.evaluate(() => document.exitFullscreen()); // the browser does this at Escape
  await expect.poll(() => bar(page).count()).toBe(0);
  expect(await page.locator('.toolbar').isVisible()).toBe(true);
  expect(page.url()).not.toContain('present');
  const top = await chapter(page, 'backward').evaluate((e) => e.getBoundingClientRect().top);
  expect(Math.abs(top)).toBeLessThan(150);
});

test('f fills the screen, and leaves it without an end of the presentation', async () => {
  const page = await present('#backward');
  const filled = () => page.evaluate(() => document.fullscreenElement !== null);
  for (const expected of [true, false, true, false]) {
    await page.keyboard.press('f');
    await expect.poll(filled).toBe(expected);
    await page.waitForTimeout(200); // waits for reactions to the change
    expect(await place(page)).toBe('Backward step 1 of 4');
  }
  await page.keyboard.press('f');
  await expect.poll(filled).toBe(true);
  await page.evaluate(() => document.exitFullscreen()); // the browser does this at Escape
  await expect.poll(() => bar(page).count()).toBe(0);
});

test('keys go on and back, over the ends of chapters', async () => {
  const page = await present('#backward');
  await expect.poll(async () => (await headings(page)).join()).toMatch(/^\d+ Backward$/);
  await page.keyboard.press('ArrowRight');
  await expect.poll(() => headings(page)).toEqual(['What is removed']);
  await page.keyboard.press('ArrowRight');
  await expect.poll(() => place(page)).toBe('Backward step 3 of 4');
  await page.keyboard.press('ArrowRight');
  await expect.poll(() => place(page)).toBe('Backward step 4 of 4');
  await page.keyboard.press('ArrowRight');
  await expect.poll(() => place(page)).toMatch(/^(?!Backward).* step 1 of \d+$/);
  await expect.poll(() => page.url()).toMatch(/\?present=1#(?!backward)[\w-]+$/);
  await page.keyboard.press('ArrowLeft');
  await expect.poll(() => place(page)).toBe('Backward step 4 of 4');
  await page.keyboard.press('Escape');
  await expect.poll(() => bar(page).count()).toBe(0);
  expect((await headings(page)).length).toBeGreaterThan(10);
});

test('g lists every step, and a button of it goes there', async () => {
  const page = await present('=2#backward');
  await page.keyboard.press('g');
  const all = page.getByRole('navigation', { name: 'All steps' });
  expect(await all.getByRole('group').count()).toBe(await page.locator('section.chapter').count());
  const current = all.locator('[aria-current]');
  expect(await current.getAttribute('aria-label')).toBe('Backward, step 2');
  expect(await current.evaluate((button) => button === document.activeElement)).toBe(true);
  await page.keyboard.press('ArrowUp');
  await page.keyboard.press('ArrowRight');
  expect(await place(page)).toBe('Backward step 2 of 4');
  await page.keyboard.press('Escape');
  expect(await all.count()).toBe(0);
  expect(await bar(page).count()).toBe(1);
  await bar(page).getByRole('button', { name: 'Go to …' }).click();
  await all.getByRole('button', { name: 'Step by step, step 4' }).click();
  await expect.poll(() => headings(page)).toEqual(['3. Normalize']);
  expect(await all.count()).toBe(0);
});

test('the list has as many steps as each chapter', async () => {
  const page = await present('#backward');
  await page.keyboard.press('g');
  const listed = page.getByRole('group', { name: 'Quiz' }).getByRole('button');
  const count = await listed.count();
  await listed.first().click();
  await expect.poll(() => place(page)).toBe(`Quiz step 1 of ${count}`);
});

test('? shows the keys', async () => {
  const page = await present('#backward');
  await page.keyboard.press('?');
  const keys = page.getByRole('complementary', { name: 'Keys' });
  await keys.getByText('go to any step').waitFor();
  await page.keyboard.press('?');
  expect(await keys.count()).toBe(0);
});

/** The window of notes follows the presentation, controls it, and closes with it. */
async function expectSpeaker(page: Page): Promise<void> {
  const opened = page.context().waitForEvent('page');
  await page.keyboard.press('w');
  const speaker = await opened;
  await expect.poll(() => speaker.title()).toBe('Speaker’s notes');
  const note = speaker.locator('.speaker-note');
  const first = await note.textContent();
  expect(first!.length).toBeGreaterThan(20);
  await page.keyboard.press('ArrowRight');
  await expect.poll(() => note.textContent()).not.toBe(first);
  await expect.poll(() => speaker.getByRole('status').textContent()).toContain('step 2 of 4');
  await speaker.getByRole('button', { name: 'Next' }).click();
  await expect.poll(() => place(page)).toBe('Backward step 3 of 4');
  await speaker.keyboard.press('ArrowLeft');
  await expect.poll(() => place(page)).toBe('Backward step 2 of 4');
  expect(await speaker.evaluate(() => getComputedStyle(document.body).color)).toBe(
    await page.evaluate(() => getComputedStyle(document.body).color),
  );
  await bar(page).getByRole('button', { name: 'Leave' }).click();
  await expect.poll(() => speaker.isClosed()).toBe(true);
}

test('w opens the notes in a separate window', async () => {
  await expectSpeaker(await present('#backward', { theme: 'dark' }));
});

test('a full screen is left for the window, and the presentation goes on', async () => {
  const page = await present('#backward');
  await page.keyboard.press('f');
  await expect.poll(() => page.evaluate(() => document.fullscreenElement !== null)).toBe(true);
  await page.keyboard.press('w');
  await expect.poll(() => page.evaluate(() => document.fullscreenElement)).toBe(null);
  await page.waitForTimeout(300);
  expect(await place(page)).toBe('Backward step 1 of 4');
});

test('where no window is allowed the notes stand below the step', async () => {
  const page = await present('#backward', { before: () => (window.open = () => null) });
  await page.keyboard.press('w');
  expect(await page.getByRole('complementary', { name: 'Speaker’s notes' }).count()).toBe(1);
});

test('page keys scroll a step that is higher than the screen before they go on', async () => {
  const page = await present('=1#highway?hw.layers=3', { height: 400 });
  const seen = [await place(page)];
  for (let i = 0; i < 12 && seen.at(-1)!.includes('step 1'); i++) {
    await page.keyboard.press('PageDown');
    await page.waitForTimeout(100);
    seen.push(await place(page));
  }
  expect(seen.length).toBeGreaterThan(2);
  expect(seen.at(-1)).toContain('step 2');
});

test('an address opens at its step, and a reload stays there', async () => {
  const page = await present('=4#step-by-step?st.x=5,6,9');
  await expect.poll(() => headings(page)).toEqual(['3. Normalize']);
  expect(await vector(chapter(page, 'step-by-step'), 'x')).toEqual([5, 6, 9]);
  await page.keyboard.press('ArrowRight');
  await expect.poll(() => headings(page)).toEqual(['4. Scale and shift']);
  await page.reload();
  await expect.poll(() => headings(page)).toEqual(['4. Scale and shift']);
});

test('what is changed stays; controls keep their own keys', async () => {
  const page = await present('=5#step-by-step');
  const gamma = chapter(page, 'step-by-step').getByLabel('Scale γ');
  await gamma.focus();
  await page.keyboard.press('ArrowRight');
  await expect.poll(() => gamma.inputValue()).not.toBe('1');
  const value = await gamma.inputValue();
  expect(await place(page)).toContain('step 5');
  await bar(page).getByRole('button', { name: 'Back' }).click();
  await bar(page).getByRole('button', { name: 'Next' }).click();
  expect(await gamma.inputValue()).toBe(value);
  await bar(page).getByRole('button', { name: 'Leave' }).click();
  expect(await gamma.inputValue()).toBe(value);
});

test('an arrow goes on behind a click, and leaves what was chosen as it is', async () => {
  const page = await present('=2#highway');
  const seen = await place(page);
  const label = chapter(page, 'highway').locator('.choice label:visible').last();
  const choice = (await label.getByRole('radio').elementHandle())!; // wherever it is shown
  await label.click();
  expect(await choice.isChecked()).toBe(true);
  await page.keyboard.press('ArrowRight');
  await expect.poll(() => place(page)).not.toBe(seen);
  expect(await choice.isChecked()).toBe(true);
});

test('a step that comes with a result is reached by its address', async () => {
  const page = await present('=6#model');
  await expect
    .poll(() => place(page), { timeout: 60_000 })
    .toBe('A small trained model step 6 of 7');
});

test('a bar follows the mouse where all is larger', async () => {
  const page = await present('=2#add-norm', { width: 1920, height: 1080 });
  const scope = chapter(page, 'add-norm');
  const size = () =>
    page.evaluate(() =>
      Number(document.documentElement.style.getPropertyValue('--presenter-size')),
    );
  expect(await size()).toBeGreaterThan(1);
  await page.waitForTimeout(300); // until the figure has its size
  const grip = scope.getByRole('slider', { name: 'x 2', exact: true }).locator('.knob');
  const { x, y, width, height } = (await grip.boundingBox())!;
  const before = (await vector(scope, 'x'))[1];
  await page.mouse.move(x + width / 2, y + height / 2);
  await page.mouse.down();
  await page.mouse.move(x + width / 2, y + height / 2);
  await page.mouse.up();
  expect((await vector(scope, 'x'))[1]).toBeCloseTo(before, 1);
});

test('every step shows something, and has a note', LONG, async () => {
  const page = await present('', { width: 1600, height: 1000 });
  await page.keyboard.press('n');
  const note = page.getByRole('complementary', { name: 'Speaker’s notes' });
  const places: string[] = [];
  for (let i = 0; i < 80; i++) {
    places.push(await place(page));
    expect(await note.textContent(), places.at(-1)).not.toContain('There is no note');
    const shown = chapter(page, (await page.evaluate(() => location.hash)).slice(1) || 'add-norm');
    expect((await shown.boundingBox())!.height, places.at(-1)).toBeGreaterThan(30);
    const next = bar(page).getByRole('button', { name: 'Next' });
    if (await next.isDisabled()) break;
    await next.click();
    await expect.poll(() => place(page)).not.toBe(places.at(-1));
    await expect.poll(() => place(page)).toContain('step');
    await page.waitForFunction(() => !document.querySelector('[data-on-stage] .wait'));
  }
  const chapters = new Set(places.map((text) => text.replace(/ step \d+ of.*/, '')));
  expect(chapters.size).toBe(await page.locator('section.chapter').count());
  expect(places.length).toBeGreaterThan(30);
  expect(await bar(page).getByRole('button', { name: 'Next' }).isDisabled()).toBe(true);
});

test('a swipe goes on and back', async () => {
  const page = await present('#backward', { width: 390, height: 844, touch: true });
  const touch = await page.context().newCDPSession(page);
  const swipe = async (from: number, to: number) => {
    const at = (x: number) => [{ x, y: 60 }];
    await touch.send('Input.dispatchTouchEvent', { type: 'touchStart', touchPoints: at(from) });
    await touch.send('Input.dispatchTouchEvent', { type: 'touchMove', touchPoints: at(to) });
    await touch.send('Input.dispatchTouchEvent', { type: 'touchEnd', touchPoints: [] });
  };
  await swipe(300, 100);
  await expect.poll(() => place(page)).toContain('step 2');
  await swipe(100, 300);
  await expect.poll(() => place(page)).toContain('step 1');
});

test.each(['light', 'dark'] as const)('axe finds nothing, %s', async (theme) => {
  const page = await present('=2#add-norm', { theme, width: 390 });
  for (const key of ['n', 'g', '?']) {
    await page.keyboard.press(key);
    const width = await page.evaluate(() => document.documentElement.scrollWidth);
    expect(width, key).toBeLessThanOrEqual(390);
    expect(await findings(page, '.presenter'), key).toEqual([]);
  }
});

test.skipIf(!hasSingleFile)('the one file presents as well', async () => {
  const page = await present('#quiz', { file: singleFile });
  await page.keyboard.press('ArrowRight');
  await expect.poll(() => place(page)).toContain('Quiz step 2 of 8');
});

test.skipIf(!hasSingleFile)('the one file has a window of notes as well', async () => {
  await expectSpeaker(await present('#backward', { file: singleFile }));
});
