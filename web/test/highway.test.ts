// The highway: four real stacks, measured in a worker.

import type { Locator, Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { LONG, chapter, findings, openPage, read } from './page';

const LANES = ['Neither', 'Norm only', 'Residual only', 'Both'];

/** Opens the chapter and waits for stacks with `layers` layers. */
async function open(query: string, layers: number, options = {}): Promise<[Page, Locator]> {
  const page = await openPage(`#highway${query && `?${query}`}`, options);
  const part = chapter(page, 'highway');
  await measured(part, layers);
  return [page, part];
}

async function measured(part: Locator, layers: number): Promise<void> {
  await part.getByText(`four stacks of ${layers} layers`).waitFor();
}

async function curves(
  part: Locator,
  name: 'Gradient' | 'Stream RMS' | 'Token similarity',
): Promise<Map<string, number[]>> {
  const rows = part.locator('figure', { hasText: name }).locator('tr[data-curve]');
  const found = await rows.evaluateAll((all) =>
    all.map((row): [string, string[]] => [
      row.getAttribute('data-curve')!,
      Array.from(row.querySelectorAll('td'), (cell) => cell.textContent!),
    ]),
  );
  const number = (cell: string) => (cell === '' ? NaN : read(cell));
  return new Map(found.map(([lane, cells]) => [lane, cells.map(number)]));
}

test('measures four stacks: one value for each layer and the end', async () => {
  const [, part] = await open('', 24);
  for (const name of ['Gradient', 'Stream RMS', 'Token similarity'] as const) {
    const found = await curves(part, name);
    expect([...found.keys()]).toEqual(LANES);
    for (const values of found.values()) {
      expect(values).toHaveLength(25);
      expect(values.every((v) => v > 0)).toBe(true);
    }
  }
  const gradients = await curves(part, 'Gradient');
  const ratio = (lane: string) => gradients.get(lane)![0] / gradients.get(lane)![23];
  expect(ratio('Neither')).toBeLessThan(1e-20);
  // Depending on weights and windows, it is 0.003 to 0.3 times that of the last layer. Without a
  // norm it is far smaller.
  expect(ratio('Norm only')).toBeGreaterThan(1e-5);
  expect(ratio('Norm only')).toBeLessThan(10);
  for (const lane of ['Residual only', 'Both']) {
    expect(ratio(lane)).toBeGreaterThan(1e-2);
    expect(ratio(lane)).toBeLessThan(1e2);
  }
  const alike = await curves(part, 'Token similarity');
  // Windows of the bundled text repeat each other more or less by chance, so this bound is loose.
  expect(alike.get('Neither')![0]).toBeLessThan(0.5);
  for (const lane of ['Neither', 'Norm only']) {
    expect(alike.get(lane)!.at(-1)).toBeGreaterThan(0.9999);
  }
  expect(alike.get('Both')!.at(-1)).toBeLessThan(0.9);
  const verdicts = await part.locator('[data-stack]').allTextContents();
  expect(verdicts[0]).toMatch(/gradient of layer 0 is \d\.\de−\d\d of layer 23’s: it vanishes/);
  expect(verdicts[0]).toContain('all tokens then carry the same vector, to within rounding');
  expect(verdicts[3]).toContain('it arrives');
  expect(verdicts[3]).not.toContain('same vector');
});

test('a curve is drawn where its axes say that its values are', async () => {
  const [, part] = await open('hw.layers=12', 12);
  const numbers = (await curves(part, 'Gradient')).get('Neither')!;
  const chart = part.locator('figure', { hasText: 'Gradient' });
  const [ticks, path] = await chart.locator('.drawing').evaluate((svg) => {
    const text = [...svg.querySelectorAll('g > .grid ~ text')];
    const ticks = text.map((e) =>
      [e.textContent!.replace('−', '-'), e.getAttribute('y')].map(Number),
    );
    return [ticks, svg.querySelector('svg svg .line')!.getAttribute('d')!];
  });
  const drawn = path
    .slice(1)
    .split('L')
    .map((point) => Number(point.split(',')[1]));
  const [[v0, y0], [v1, y1]] = [ticks[0], ticks.at(-1)!];
  const decade = (y1 - y0) / Math.log10(v1 / v0);
  expect(drawn).toHaveLength(13);
  drawn.forEach((y, i) => {
    expect(y).toBeCloseTo(y0 + decade * Math.log10(numbers[i] / v0), 0);
  });
});

test('initial weights decide what a residual without a norm does', async () => {
  const [, part] = await open('hw.layers=12', 12);
  const row = part.locator('tr[data-gradient="Residual only"] [data-fate]');
  await expect.poll(() => row.count(), { timeout: 30_000 }).toBe(3); // twelve stacks
  const fates = await row.evaluateAll((cells) => cells.map((c) => c.getAttribute('data-fate')));
  expect(fates).toEqual(['arrives', 'explodes', 'arrives']);
  await part.getByRole('radio', { name: 'Xavier' }).check();
  const verdict = part.locator('[data-stack="Residual only"]');
  await expect.poll(() => verdict.textContent()).toContain('it explodes');
});

test('a hundred layers; what leaves float32 is said and left out', async () => {
  const [, part] = await open('hw.layers=100&hw.first=xavier', 100);
  const signals = await curves(part, 'Stream RMS');
  expect(signals.get('Both')!.every(Number.isFinite)).toBe(true);
  expect(signals.get('Residual only')!.at(-1)).toBeNaN();
  expect(await part.locator('[data-stack="Residual only"]').textContent()).toMatch(
    /the output of layer \d\d is too large for float32\. So there is no gradient/,
  );
});

test('relative curves start at 1, at the end where they start', async () => {
  const [page, part] = await open('hw.layers=8&hw.width=16', 8);
  await part.getByRole('radio', { name: 'relative to their start' }).check();
  await expect.poll(async () => (await curves(part, 'Stream RMS')).get('Both')![0]).toBe(1);
  for (const values of (await curves(part, 'Gradient')).values()) expect(values.at(-1)).toBe(1);
  await expect.poll(() => page.url()).toContain('hw.scale=relative');
});

test('by keyboard: slider and choices; the link reopens the same', async () => {
  const [page, part] = await open('hw.layers=5', 5);
  const slider = part.getByRole('slider', { name: 'Layers' });
  await slider.focus();
  await page.keyboard.press('ArrowRight');
  await measured(part, 6);
  await page.keyboard.press('End');
  await measured(part, 120);
  await page.keyboard.press('Home');
  await measured(part, 2);
  await page.keyboard.press('Tab');
  await page.keyboard.press('ArrowRight'); // initial weights
  await expect.poll(() => page.url()).toContain('hw.first=xavier');
  const both = await curves(part, 'Gradient');
  const [, again] = await open(new URL(page.url()).hash.split('?')[1], 2);
  expect(await curves(again, 'Gradient')).toEqual(both);
});

test('changes leave nothing behind', LONG, async () => {
  const [page, part] = await open('hw.layers=3&hw.width=16', 3);
  const session = await page.context().newCDPSession(page);
  await session.send('Performance.enable');
  const change = async (times: number) => {
    for (let i = 0; i < times; ++i) {
      await part.getByRole('slider', { name: 'Layers' }).press(i % 2 ? 'ArrowLeft' : 'ArrowRight');
      await measured(part, i % 2 ? 3 : 4);
    }
  };
  const nodes = async () => {
    await session.send('HeapProfiler.collectGarbage');
    const { metrics } = await session.send('Performance.getMetrics');
    return metrics.find(({ name }) => name === 'Nodes')!.value;
  };
  await change(10);
  await page.waitForTimeout(1000);
  const before = await nodes();
  await change(30);
  await page.waitForTimeout(1000);
  expect(await nodes()).toBeLessThan(1.01 * before);
});

test('a seed that is none is refused beside its field', async () => {
  const [, part] = await open('hw.layers=3', 3);
  await part.getByText('Width, norm, scale and seed').click();
  await part.getByRole('textbox', { name: 'Seed' }).fill('1.5');
  await part.getByText('Seed is 1.5; it must be a whole number from 0 to 9999.').waitFor();
  const [page] = await open('hw.layers=1e9&hw.first=zero', 24);
  const alert = page.getByRole('alert').first();
  expect(await alert.textContent()).toContain('must be a whole number from 2 to 120');
});

test('narrow, light and dark: nothing sticks out, axe finds nothing', LONG, async () => {
  const [page] = await open('hw.layers=6', 6, { width: 360, touch: true });
  const width = await page.evaluate(() => document.documentElement.scrollWidth);
  expect(width).toBeLessThanOrEqual(360);
  const wide = await page
    .locator('.highway-formulas .formula')
    .evaluateAll((all) => all.filter((e) => e.scrollWidth > e.clientWidth).length);
  expect(wide).toBe(0);
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme });
    expect(await findings(page, '#highway')).toEqual([]);
  }
});
