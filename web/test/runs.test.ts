// The page of training runs, over run folders that grow during the test.

import { mkdtempSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { beforeEach, expect, test } from 'vitest';
import { MadeRun } from './made-run';
import { LONG, findings, openPage, type PageOptions, read } from './page';
import { translation } from './offered';
import { type Server, startServer } from './serve';
import { inWideLetters, plainTexts, wide } from './wide-letters';

let folder: string;
let server: Server;

beforeEach(async ({ onTestFinished }) => {
  folder = mkdtempSync(join(tmpdir(), 'addnorm-runs-'));
  server = await startServer(['--port', '0', '--runs', folder]);
  onTestFinished(() => {
    server.stop(); // the page, which would report it, is closed by now
    rmSync(folder, { recursive: true });
  });
});

const SETTINGS = { steps: 2000, layers: 3, placement: 'pre', lr: 0.001 };

/** A finished run, and a stopped one in a subfolder. */
function twoRuns(): [MadeRun, MadeRun] {
  const done = new MadeRun(join(folder, 'done'), { ...SETTINGS, steps: 300 });
  done.train(1, 300);
  done.profile(0, 100, 300);
  const other = new MadeRun(join(folder, 'sweep/other'), { ...SETTINGS, lr: 0.003 });
  other.train(1, 200);
  other.profile(0, 100);
  return [done, other];
}

const openRuns = (hash = '', options: PageOptions = {}) =>
  openPage(`runs.html${hash}`, { address: server.address, heading: 'Training runs', ...options });

/** A curve of a chart's table; NaN where it has no value. */
async function curve(page: Page, chart: string, name: string): Promise<number[]> {
  const row = page.locator('figure', { hasText: chart }).locator(`tr[data-curve="${name}"]`);
  const cells = await row.locator('td').allTextContents();
  return cells.map((cell) => (cell === '' ? NaN : read(cell)));
}

const lengthOf = async (page: Page, name: string) =>
  (await curve(page, 'Gradient norm', name)).filter(Number.isFinite).length;

/** Waits until a curve has this many points. */
const grownTo = (page: Page, name: string, points: number) =>
  expect.poll(() => lengthOf(page, name), { timeout: 20_000 }).toBe(points);

test('lists runs with what they differ in, and draws their curves', async () => {
  const [done] = twoRuns();
  const page = await openRuns();
  await grownTo(page, 'done', 300);
  await grownTo(page, 'sweep/other', 200);
  const cells = (name: string) => page.locator(`tr[data-run="${name}"] > td`).allTextContents();
  expect(await cells('sweep/other')).toEqual(
    expect.arrayContaining(['stopped', '200 of 2,000', '40,960', '0.003']),
  );
  const bits = (await cells('done'))[3];
  const validation = (await curve(page, 'Loss', 'done, validation')).filter(Number.isFinite);
  expect(validation).toHaveLength(3);
  expect(Number(bits)).toBeCloseTo(validation[2] / Math.LN2, 3);
  expect(await cells('done')).not.toContain('pre'); // equal in both
  const gradients = await curve(page, 'Gradient norm', 'done');
  expect(gradients[99]).toBeCloseTo(done.step(100).gradient_norm, 5);
  const rates = await curve(page, 'Learning rate', 'done');
  expect(rates[49]).toBeCloseTo(done.step(50).learning_rate, 8);
});

test('has no text that is not translated', LONG, async () => {
  twoRuns();
  const page = await openRuns('?lang=de', { ...inWideLetters, heading: wide('Training runs') });
  await page.locator('tr[data-curve="sweep/other"]').first().waitFor({ state: 'attached' });
  const parts = page.locator('#app');
  const ofRuns = /^(done|sweep\/other)|^(lr|steps)$/;
  expect((await plainTexts(parts)).filter((text) => !ofRuns.test(text))).toEqual([]);
  expect(await findings(page, 'body')).toEqual([]);
});

test('shows the stream by layer at each step that was profiled', async () => {
  twoRuns();
  const page = await openRuns('#?runs.shown=done');
  const rms = () => curve(page, 'Stream RMS', 'done');
  await expect.poll(rms).toHaveLength(4);
  expect((await rms())[3]).toBeCloseTo((await rms())[2] + 0.25, 5);
  const slider = page.getByRole('slider', { name: 'Step' });
  expect(await slider.getAttribute('aria-valuetext')).toBe('300');
  await slider.press('Home');
  expect(await slider.getAttribute('aria-valuetext')).toBe('0');
  await expect.poll(async () => (await rms())[1]).toBeCloseTo(1 + Math.log(2) / 4, 5);
  expect((await curve(page, 'Gradient RMS', 'done'))[1]).toBeCloseTo(5e-4, 8);
});

test('follows a run that goes on, stops, and is taken up again', async () => {
  const run = new MadeRun(join(folder, 'live'), SETTINGS);
  const page = await openRuns();
  await page.getByText('0 of 2,000').waitFor();
  run.train(1, 50);
  await grownTo(page, 'live', 50);
  const half = `${JSON.stringify(run.step(51))}\n`;
  run.write(half.slice(0, 30)); // still being written
  await page.waitForTimeout(2000);
  expect(await lengthOf(page, 'live')).toBe(50);
  run.write(half.slice(30));
  run.write('{"step":52,"stopped":"the loss is not finite"}\n');
  await grownTo(page, 'live', 51);
  await page.getByText('live has stopped: the loss is not finite.').waitFor();

  truncateSync(run.metrics, 0); // back to a checkpoint, then past the old end
  run.train(1, 20);
  run.settings.lr = 0.1;
  run.train(21, 120);
  await grownTo(page, 'live', 120);
  const rates = await curve(page, 'Learning rate', 'live');
  expect(rates[19]).toBeCloseTo(0.0002, 8);
  expect(rates[20]).toBeCloseTo(0.021, 8);
});

test('goes on when the server is back, and says how to start a run where there is none', async () => {
  const page = await openRuns('', { expected: /ERR_CONNECTION_REFUSED/ });
  await page.getByText('addnorm train --text FILE --out DIR/NAME').waitFor();
  server.stop();
  const complaint = page.getByText('The server does not answer.');
  await complaint.waitFor();
  const port = new URL(server.address).port;
  server = await startServer(['--runs', folder, '--port', port]);
  twoRuns();
  await grownTo(page, 'done', 300);
  await complaint.waitFor({ state: 'detached' });
});

test('asks for nothing while it is out of sight', async () => {
  const [done] = twoRuns();
  const page = await openRuns();
  await grownTo(page, 'done', 300);
  await page.evaluate(() => {
    Object.defineProperty(document, 'hidden', { value: true, configurable: true });
  });
  await page.waitForTimeout(500); // waits for requests in progress
  let requests = 0;
  page.on('request', () => requests++);
  done.train(301, 310);
  await page.waitForTimeout(3500);
  expect(requests).toBe(0);
  await page.evaluate(() => {
    Object.defineProperty(document, 'hidden', { value: false });
    document.dispatchEvent(new Event('visibilitychange'));
  });
  await grownTo(page, 'done', 310);
});

test('keeps in the address what was chosen', async () => {
  twoRuns();
  const page = await openRuns();
  await page.getByRole('checkbox', { name: 'sweep/other' }).press('Space');
  await page.getByRole('radio', { name: 'logarithmic' }).check();
  await page.getByRole('slider', { name: 'Smoothing' }).press('Home');
  await expect.poll(() => page.url()).toContain('runs.smoothing=0');
  await page.reload();
  await grownTo(page, 'done', 300);
  expect(await page.getByRole('checkbox', { name: 'sweep/other' }).isChecked()).toBe(false);
  expect(await page.getByRole('radio', { name: 'logarithmic' }).isChecked()).toBe(true);
  expect(await page.locator('tr[data-curve="sweep/other"]').count()).toBe(0);
});

test('the menus set language and theme', async () => {
  const page = await openRuns();
  await page.getByLabel('Theme').selectOption('dark');
  await page.getByLabel('Language').selectOption('Deutsch');
  const german = (text: string) => translation('de', text);
  await page.getByRole('heading', { name: german('Training runs') }).waitFor();
  expect(await page.getByLabel(german('Theme')).inputValue()).toBe('dark');
  expect(await page.getByLabel(german('Language')).inputValue()).toBe('de');
});

/** Makes the page count the elements that its code hands to the methods of arrays. This is its work
 * for long runs, which does not depend on the machine. Returns a function that gives the number of
 * elements since its last call. */
async function countElements(page: Page): Promise<() => Promise<number>> {
  await page.evaluate(() => {
    const count = ((globalThis as any).count = { elements: 0 });
    const methods = Array.prototype as any;
    for (const name of Reflect.ownKeys(methods)) {
      const method = methods[name];
      if (typeof method !== 'function' || name === 'constructor') continue;
      const isPush = name === 'push';
      methods[name] = function (...given: unknown[]) {
        count.elements += isPush ? given.length : this.length;
        return method.apply(this, given);
      };
    }
  });
  return () =>
    page.evaluate(() => {
      const { count } = globalThis as any;
      const { elements } = count;
      count.elements = 0;
      return elements;
    });
}

test('stays quick with long runs', async () => {
  const [names, steps] = [['a', 'b', 'c'], 100_000];
  for (const name of names) new MadeRun(join(folder, name), SETTINGS).train(1, steps);
  const page = await openRuns();
  for (const name of names) await grownTo(page, name, 200);
  const loss = () => curve(page, 'Loss', 'a');
  const before = await loss();
  const elements = await countElements(page);
  await page.getByLabel('Smoothing').fill('0.5');
  await expect.poll(loss).not.toEqual(before);
  const work = await elements();
  expect(work).toBeGreaterThan(10 * names.length * steps); // the curves were computed again
  // One computation takes 28 elements for each step: not twice that, and not steps².
  expect(work).toBeLessThan(45 * names.length * steps);
});

test.each([
  { width: 360, theme: 'light' },
  { width: 1600, theme: 'dark' },
] as const)('fits $width pixels and is accessible, $theme', LONG, async (options) => {
  const [, other] = twoRuns();
  other.write('{"step":201,"stopped":"the gradient is not finite"}\n');
  writeFileSync(join(folder, 'done/config.json'), '{'); // still being written
  const page = await openRuns('', options);
  await grownTo(page, 'done', 300);
  await page.getByText('sweep/other has stopped').waitFor();
  expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(options.width);
  expect(await findings(page, 'body')).toEqual([]);
  await page.getByRole('button', { name: 'Show numbers' }).click();
  expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(options.width);
  expect(await findings(page, 'body')).toEqual([]);
});
