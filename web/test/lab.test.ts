// The lab: its figures, run in a worker.

import type { Locator, Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { LONG, chapter, findings, openPage } from './page';

/** The texts of drawings that extend beyond them. */
function clippedTexts(drawings: Element[]): string[] {
  return drawings.flatMap((drawing) => {
    const { left, right, top, bottom } = drawing.getBoundingClientRect();
    const isClipped = (text: Element) => {
      const box = text.getBoundingClientRect();
      return box.left < left || box.right > right || box.top < top || box.bottom > bottom;
    };
    return [...drawing.querySelectorAll('text')].filter(isClipped).map((t) => t.textContent!);
  });
}

/** Opens the chapter and waits for the figure. */
async function open(query: string, figure: string, options = {}): Promise<[Page, Locator]> {
  const page = await openPage(`#lab${query && `?${query}`}`, options);
  const part = chapter(page, 'lab');
  await part.locator(`h3[data-figure="${figure}"]`).waitFor();
  return [page, part];
}

const verdict = (part: Locator) => part.locator('.lab-sum').getAttribute('data-verdict');

test('runs every figure, and finds it inside', LONG, async () => {
  const [, part] = await open('', 'gradient-flow');
  const names = await part
    .getByRole('group', { name: 'Figure' })
    .locator('label')
    .allTextContents();
  expect(names.length).toBeGreaterThan(0);
  for (const name of names) {
    await part.getByRole('radio', { name, exact: true }).check();
    await part.locator(`h3[data-figure="${name.replaceAll(' ', '-')}"]`).waitFor();
    expect(await verdict(part), name).toBe('inside');
    expect(await part.locator('.lab-figure').count(), name).toBeGreaterThan(0);
    expect(await part.locator('.lab-figure .drawing').evaluateAll(clippedTexts), name).toEqual([]);
  }
});

test('a bug turns the verdict, with what it is beside it', async () => {
  const [page, part] = await open('', 'gradient-flow');
  await part.getByLabel('Break it').selectOption('no residual');
  await part.locator('[data-verdict="outside"]').waitFor();
  expect(await part.locator('[data-check="outside"]').count()).toBeGreaterThan(0);
  expect(await part.locator('[data-check="outside"]').first().innerText()).toMatch(/^✗ outside/);
  expect(await part.locator('.drawing .failing').count()).toBeGreaterThan(0);
  await part.getByText('no sublayer adds the stream.', { exact: true }).waitFor();
  await page.waitForTimeout(500); // changes within 400 ms are one gesture, undone together
  await part.getByLabel('Break it').selectOption('half statistics');
  await part.getByText('This figure does not detect the bug.').waitFor();
  await page.getByRole('button', { name: 'Undo' }).click();
  await part.locator('[data-verdict="outside"]').waitFor();
  await part.getByLabel('Break it').selectOption('half statistics');
  await part.getByRole('button', { name: 'Put it into “layernorm”, which detects it' }).click();
  await part.locator('h3[data-figure="layernorm"]').waitFor();
  await part.locator('[data-verdict="outside"]').waitFor();
  await part.getByRole('button', { name: 'Reset chapter' }).click();
  await part.locator('[data-verdict="inside"]').waitFor();
  expect(await part.locator('.drawing .failing').count()).toBe(0);
  expect(await part.locator('[data-check="inside"]').first().innerText()).toMatch(/^✓ inside/);
});

test('what a bug leaves without a number is told in words', async () => {
  const query = 'lab.figure=lanes&lab.lanes.layers=8&lab.lanes.seeds=2&lab.bug=lanes-folded';
  const [, part] = await open(query, 'lanes');
  const text = await part.innerText();
  expect(text).toContain('measured not a number');
  expect(text).not.toMatch(/\bnan\b|NaN/);
});

test('a bug stays behind with its figure', async () => {
  const [, part] = await open('lab.bug=no-residual', 'gradient-flow');
  await part.locator('[data-verdict="outside"]').waitFor();
  await part.getByRole('radio', { name: 'layernorm', exact: true }).check();
  await part.locator('h3[data-figure="layernorm"]').waitFor();
  expect(await part.getByLabel('Break it').inputValue()).toBe('none');
  await part.locator('[data-verdict="inside"]').waitFor();
});

test('a link carries figure and options; the command is the same run', async () => {
  const query =
    'lab.figure=variance&lab.variance.layers=6&lab.variance.placements=post,pre&lab.seed=3';
  const [page, part] = await open(query, 'variance');
  expect(await part.getByLabel('command', { exact: true }).textContent()).toBe(
    'build/release/bin/addnorm lab variance --layers 6 --width 64 --seeds 32 --seed 3 --placement post,pre',
  );
  await part.getByRole('checkbox', { name: 'reordered' }).check();
  await part.getByText('--placement post,pre,reordered').waitFor();
  await page.waitForURL(/lab\.variance\.placements=post,pre,reordered/);
});

test('at least one placement stays', async () => {
  const [, part] = await open(
    'lab.figure=rank-collapse&lab.rank-collapse.placements=pre',
    'rank-collapse',
  );
  expect(await part.getByRole('checkbox', { name: 'pre', exact: true }).isDisabled()).toBe(true);
});

test('the tables have the numbers of the drawing', async () => {
  const [, part] = await open('lab.figure=placement', 'placement');
  const rows = part.locator('.lab-figure').first().locator('tr[data-curve]');
  const names = await rows.evaluateAll((all) => all.map((row) => row.getAttribute('data-curve')!));
  expect(names).toContain('deepnorm');
  expect(names).toContain('deepnorm (theory)');
  const cells = await rows.first().locator('td').allTextContents();
  expect(cells).toHaveLength(3);
  expect(cells.every((cell) => Number(cell) > 0)).toBe(true);
});

test('the drawing has the colours of the page’s theme', async () => {
  const [page, part] = await open('lab.figure=pipeline', 'pipeline');
  const ink = () =>
    part
      .locator('.lab-figure .drawing .strong')
      .first()
      .evaluate((element) => getComputedStyle(element).fill);
  const light = await ink();
  await page.getByLabel('Theme').selectOption('dark');
  await expect.poll(ink).not.toBe(light);
});

test('says so when the module cannot be loaded, and tries again', async () => {
  const page = await openPage();
  const empty = { status: 200, contentType: 'application/wasm', body: '' };
  await page.route(/lab-[^/]*\.wasm/, (route) => route.fulfill(empty));
  const part = chapter(page, 'lab');
  await part.evaluate((element) => element.scrollIntoView());
  await part.getByRole('alert').waitFor();
  expect(await part.getByText('is being drawn').count()).toBe(0);
  await page.unroute(/lab-[^/]*\.wasm/);
  await part.getByRole('radio', { name: 'pipeline' }).check();
  await part.locator('h3[data-figure="pipeline"]').waitFor();
  expect(await part.getByRole('alert').count()).toBe(0);
});

test('the pointer reads the values of curves and of cells', async () => {
  const [page, part] = await open('lab.figure=depth-mixing', 'depth-mixing');
  const readAt = async (plot: Locator, across: number, down: number) => {
    await plot.scrollIntoViewIfNeeded();
    const { x, y, width, height } = (await plot.boundingBox())!;
    await page.mouse.move(x + across * width, y + down * height);
    return part.locator('.reading text').allTextContents();
  };
  const plots = part.locator('.plot-pointer');
  expect(await readAt(plots.first(), 0.01, 0.01)).toEqual(['1 ← x', '1']);
  const read = await readAt(plots.last(), 0.999, 0.5);
  expect(read[0]).toBe('source: 0 is x, then the sublayers 23');
  expect(read).toContain('hyper');
});

test('a figure that takes long gives way to the next', async () => {
  const query =
    'lab.figure=rank-collapse&lab.rank-collapse.layers=48&lab.rank-collapse.seeds=16' +
    '&lab.rank-collapse.stackWidth=128&lab.rank-collapse.placements=none,post,pre,sandwich';
  const page = await openPage(`#lab?${query}`);
  const part = chapter(page, 'lab');
  await part.evaluate((element) => element.scrollIntoView());
  await part.locator('[aria-busy="true"]').waitFor();
  await page.waitForTimeout(1500);
  await part.getByRole('radio', { name: 'pipeline' }).check();
  await part.locator('h3[data-figure="pipeline"]').waitFor({ timeout: 5000 });
});

test.each(['light', 'dark'] as const)('has no accessibility findings, %s', LONG, async (theme) => {
  const [page] = await open('lab.figure=placement', 'placement', { theme });
  expect(await findings(page, '#lab')).toEqual([]);
});

test('fits into 360 pixels', LONG, async () => {
  const [page, part] = await open('lab.figure=variance', 'variance', { width: 360 });
  expect(await part.locator('.lab-figure .drawing').evaluateAll(clippedTexts)).toEqual([]);
  const width = await page.evaluate(() => document.documentElement.scrollWidth);
  expect(width).toBeLessThanOrEqual(360);
});
