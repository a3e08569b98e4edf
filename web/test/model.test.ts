// The chapter about a trained network, which a worker runs on the reader's prompt.

import type { Locator, Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { LONG, chapter, findings, openPage, read } from './page';

/** Opens the chapter and waits until its prompt has been read. */
async function open(query = '', options = {}): Promise<[Page, Locator]> {
  const page = await openPage(`#model${query && `?${query}`}`, options);
  const part = chapter(page, 'model');
  await part.getByRole('heading', { name: 'The size of the stream' }).waitFor();
  return [page, part];
}

async function row(part: Locator, data: string): Promise<number[]> {
  return (await part.locator(`tr[data-${data}] td`).allTextContents()).map(read);
}

test('shows a trained network: its stream, its features, its γ, its predictions', async () => {
  const [, part] = await open();
  const stream = await row(part, 'curve="Stream"');
  expect(stream).toHaveLength(17);
  expect(stream.at(-1)).toBeGreaterThan(1.5 * stream[0]);
  expect(await part.locator('tr[data-layer]').count()).toBe(9);
  const end = await row(part, 'layer="8"');
  expect(end).toHaveLength(32);
  expect(end).toEqual([...end].sort((a, b) => b - a)); // sorted, largest first
  expect(Math.hypot(...end) / Math.sqrt(32)).toBeCloseTo(stream.at(-1)!, 4);
  expect(await part.locator('tr[data-gamma]').count()).toBe(17);
  const bytes = await part.locator('tr[data-byte] td').allTextContents();
  expect(bytes).toHaveLength(8);
  const sum = bytes.map(read).reduce((a, b) => a + b);
  expect(sum).toBeGreaterThan(0.3);
  expect(sum).toBeLessThanOrEqual(1);
});

test('shows a real model: its stream and its γ by layer, folded', async () => {
  const [page, part] = await open();
  const fold = part.locator('.advanced', { hasText: 'A real model: SmolLM2-135M' });
  await fold.locator('summary').first().click();
  expect(await fold.locator('tr[data-recorded]').count()).toBe(31);
  expect(await fold.locator('tr[data-recorded-gamma]').count()).toBe(61);
  const [first, , median] = await row(fold, 'recorded="12"');
  expect(await fold.textContent()).toContain(`jumps to ${first.toLocaleString('en')}`);
  expect(first).toBeGreaterThan(100 * median);
  expect(await fold.textContent()).toMatch(/the largest feature holds [\d.]+ % of the stream/);
  await fold.locator('.plot-pointer').last().hover();
  await fold.locator('.reading', { hasText: '…' }).waitFor(); // the range of γ
  expect(await findings(page, '#model')).toEqual([]);
});

test('a guess comes before the measurement; a skipped layer changes the prediction', async () => {
  const [page, part] = await open();
  expect(await part.locator('tr[data-without]').count()).toBe(0);
  await part.getByRole('radio', { name: 'one in between' }).check();
  await part.getByText('The whole network’s loss').waitFor();
  const whole = (await row(part, 'without="nothing"'))[0];
  const losses = await Promise.all(
    Array.from({ length: 8 }, async (_, l) => (await row(part, `without="layer ${l}"`))[0]),
  );
  const worst = losses.indexOf(Math.max(...losses));
  expect(losses[worst]).toBeGreaterThan(whole + 0.2);
  const verdict = worst === 0 || worst === 7 ? 'Not quite.' : 'Right.';
  expect(await part.locator('[aria-live] strong').textContent()).toBe(verdict);
  await part.getByRole('radio', { name: 'sublayers', exact: true }).check();
  expect(await part.locator('tr[data-without]').count()).toBe(17);
  await part.getByRole('group', { name: 'Predict without layer' }).getByLabel('3').check();
  const [full, without] = (
    await part.locator('tr[data-byte]').last().locator('td').allTextContents()
  ).map(read);
  expect(full).not.toBe(without);
  await expect.poll(() => page.url()).toContain('rm.guess=middle&rm.part=sublayer&rm.skip=3');
  await part.getByRole('button', { name: 'Reset chapter' }).click();
  expect(await part.locator('tr[data-without]').count()).toBe(0);
});

test('reads one’s own prompt, by keyboard; the link keeps it', async () => {
  const [page, part] = await open();
  const loss = async () => (await row(part, 'curve="Stream"')).join();
  const before = await loss();
  const box = part.getByRole('textbox', { name: 'Prompt' });
  await box.focus();
  await page.keyboard.press('Control+A');
  await page.keyboard.type('Thou shalt not k');
  await expect.poll(loss).not.toBe(before);
  await expect.poll(() => page.url()).toContain('rm.prompt=Thou');
  const mine = await loss();
  const [, again] = await open(new URL(page.url()).hash.split('?')[1]);
  await expect.poll(async () => (await row(again, 'curve="Stream"')).join()).toBe(mine);
  await part.getByRole('button', { name: 'One letter' }).click();
  await expect.poll(loss).not.toBe(mine);
  await box.fill('x');
  await part.getByText('Prompt has 1 byte; it must have from 2 to 128.').waitFor();
});

test('narrow, light and dark: nothing sticks out, axe finds nothing', LONG, async () => {
  const [page] = await open('rm.guess=first&rm.skip=0', { width: 360, touch: true });
  const width = await page.evaluate(() => document.documentElement.scrollWidth);
  expect(width).toBeLessThanOrEqual(360);
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme });
    expect(await findings(page, '#model')).toEqual([]);
  }
});
