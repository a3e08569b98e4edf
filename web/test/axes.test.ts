// The chapter “Which axes”.

import type { Locator } from 'playwright-core';
import { expect, test } from 'vitest';
import { LONG, chapter, findings, openPage, vector } from './page';

async function matrix(axes: Locator, id: string, rows: number): Promise<number[][]> {
  return Promise.all(Array.from({ length: rows }, (_, i) => vector(axes, `${id}-${i + 1}`)));
}

function normalized(values: number[], centred = true): number[] {
  const n = values.length;
  const mean = centred ? values.reduce((sum, v) => sum + v, 0) / n : 0;
  const variance = values.reduce((sum, v) => sum + (v - mean) ** 2, 0) / n;
  return values.map((v) => (v - mean) / Math.sqrt(variance + 1e-5));
}

function transposed(m: number[][]): number[][] {
  return m[0].map((_, j) => m.map((row) => row[j]));
}

function expectClose(actual: number[][], expected: number[][]) {
  expect(actual.length).toBe(expected.length);
  actual.flat().forEach((v, i) => expect(v).toBeCloseTo(expected.flat()[i], 5));
}

test('each norm’s output is what the formula gives', async () => {
  const page = await openPage('#axes');
  const axes = chapter(page, 'axes');
  const x = await matrix(axes, 'row', 4);
  expect(x[0].length).toBe(6);
  const halves = (row: number[]) => [row.slice(0, 3), row.slice(3)];
  const expected: Record<string, number[][]> = {
    LayerNorm: x.map((row) => normalized(row)),
    RMSNorm: x.map((row) => normalized(row, false)),
    BatchNorm: transposed(transposed(x).map((column) => normalized(column))),
    InstanceNorm: x.map((row) => row.map(() => 0)),
    GroupNorm: x.map((row) => halves(row).flatMap((half) => normalized(half))),
  };
  for (const [name, output] of Object.entries(expected)) {
    await axes.getByRole('radio', { name, exact: true }).check();
    expectClose(await matrix(axes, 'output', 4), output);
  }
});

test('BatchNorm depends on its neighbours, and gives 0 for a batch of one', async () => {
  const page = await openPage('#axes?ax.kind=batch');
  const axes = chapter(page, 'axes');
  const others = axes.getByRole('button', { name: 'Draw new values for the other samples' });
  const [x, before] = [await vector(axes, 'row-1'), await vector(axes, 'output-1')];
  const said = /by up to ([\d.]+): it depends/.exec(await axes.innerText())![1];
  let change = 0;
  for (let draw = 1; draw <= 8; draw++) {
    await others.click();
    const after = await vector(axes, 'output-1');
    change = Math.max(change, ...after.map((v, i) => Math.abs(v - before[i])));
  }
  expect(await vector(axes, 'row-1')).toEqual(x);
  expect(change).toBeCloseTo(Number(said), 2);

  await axes.getByRole('slider', { name: 'Batch size' }).focus();
  await page.keyboard.press('Home');
  expect(await vector(axes, 'output-1')).toEqual(x.map(() => 0));
  expect(await axes.innerText()).toContain('Every output is 0');
  expect(await others.isDisabled()).toBe(true);
  await axes.getByRole('radio', { name: '4', exact: true }).last().check();
  expect(await axes.innerText()).toContain('Norms with the same output here: InstanceNorm.');
});

test('a guess about a batch of one shows that batch', async () => {
  const page = await openPage('#axes?ax.positions=4');
  const axes = chapter(page, 'axes');
  await axes.getByRole('radio', { name: 'The input, unchanged' }).check();
  expect(await axes.locator('.guess').innerText()).toContain('Not quite. The largest output is 0.');
  expect((await vector(axes, 'output-1')).every((v) => v === 0)).toBe(true);
  expect(await axes.locator('tr[data-vector="row-2"]').count()).toBe(0);
});

test('the cells by keyboard, and a link reopens them', async () => {
  const page = await openPage('#axes?ax.kind=group&ax.groups=3');
  const axes = chapter(page, 'axes');
  const cells = axes.getByRole('slider', { name: 'Cell' });
  await cells.focus();
  for (const key of ['ArrowDown', 'End', 'ArrowLeft', 'ArrowRight', 'ArrowRight']) {
    await page.keyboard.press(key);
  }
  const [x, output] = [await vector(axes, 'row-2'), await vector(axes, 'output-2')];
  const words = (await cells.getAttribute('aria-valuetext'))!;
  expect(words).toContain('Sample 2, channel 6');
  expect(words).toContain('with 1 other cell');
  expect(words.replaceAll('−', '-')).toContain(`channel 6: ${x[5]}.`);
  expect(words.replaceAll('−', '-')).toContain(`= ${Number(output[5].toPrecision(3))}.`);

  await expect.poll(() => page.url()).toContain('ax.row=2');
  const again = await openPage(new URL(page.url()).hash);
  const slider = chapter(again, 'axes').getByRole('slider', { name: 'Cell' });
  expect(await slider.getAttribute('aria-valuetext')).toBe(words);
});

test('hovering lights another cell, a click chooses it', async () => {
  const page = await openPage('#axes');
  const axes = chapter(page, 'axes');
  const words = axes.locator('.axes-words');
  const chosen = await words.innerText();
  const cells = axes.getByRole('slider', { name: 'Cell' });
  await cells.focus();
  await page.keyboard.press('Shift'); // or the link would scroll to the chapter's head once more
  await cells.evaluate((element) => element.scrollIntoView({ block: 'center' }));
  const box = (await cells.boundingBox())!;
  await page.mouse.move(box.x + 90, box.y + 130);
  expect(await words.innerText()).toContain('Sample 3, channel 1');
  await page.mouse.move(box.x + 90, box.y - 10);
  expect(await words.innerText()).toBe(chosen);
  await page.mouse.click(box.x + box.width - 10, box.y + 60); // on the output's map
  await page.mouse.move(0, 0);
  expect(await words.innerText()).toContain('Sample 1, channel 6');
});

test('side by side, the same value belongs to a channel in BatchNorm and a sample in LayerNorm', async () => {
  const page = await openPage('#axes');
  const axes = chapter(page, 'axes');
  const both = axes.getByRole('slider', { name: 'Value in both tables' });
  await both.focus();
  for (const key of ['ArrowDown', 'Home', 'ArrowRight']) await page.keyboard.press(key);
  const x = await matrix(axes, 'row', 4);
  expect(await vector(axes, 'batch-set')).toEqual(transposed(x)[1]);
  expect(await vector(axes, 'layer-set')).toEqual(x[1]);
  const mean = x[1].reduce((sum, v) => sum + v, 0) / 6;
  const words = (await both.getAttribute('aria-valuetext'))!;
  expect(words).toContain('Sample 2, channel 2: BatchNorm: ');
  const said = /LayerNorm: μ = ([−\d.]+), .* of 6 values/.exec(words)![1];
  expect(Number(said.replace('−', '-'))).toBeCloseTo(mean, 2);
  const lit = axes.locator('.drawing').first().locator('.axes-together rect');
  expect(await lit.count()).toBe(4 + 6);
});

test.each([1500, 1920])('at %i px the figure stays in sight beside the text', async (width) => {
  const page = await openPage('#axes', { width, height: 900 });
  const figure = chapter(page, 'axes').locator('.beside-figure');
  const text = chapter(page, 'axes').locator('.beside .guess');
  await page.keyboard.press('Shift'); // or the link would scroll to the chapter's head once more
  await text.evaluate((element) => element.scrollIntoView({ block: 'center' }));
  const [a, b] = [(await figure.boundingBox())!, (await text.boundingBox())!];
  expect(b.x + b.width).toBeLessThan(a.x);
  expect(a.y).toBeGreaterThan(0);
  expect(a.y + a.height).toBeLessThan(900);
});

test('the table measures every norm', async () => {
  const page = await openPage('#axes?ax.positions=2');
  const axes = chapter(page, 'axes');
  const cells = (kind: string) => axes.locator(`tr[data-norm=${kind}] td`).allTextContents();
  expect((await cells('batch')).slice(1, 3)).toEqual(['6', '8']);
  expect((await cells('batch'))[3]).toMatch(/^yes: /);
  expect((await cells('batch'))[4]).toMatch(/^is InstanceNorm: /);
  const layer = ['4', '12', 'no: 0', 'works: the same output'];
  expect((await cells('layer')).slice(1, 5)).toEqual(layer);
  expect((await cells('instance')).slice(1, 3)).toEqual(['24', '2']);
  expect((await cells('group')).slice(1, 3)).toEqual(['8', '6']);
});

test('a mangled link gets a word, and groups that do not fit do too', async () => {
  const hash = '#axes?ax.kind=group&ax.groups=4&ax.samples=99&ax.row=8&ax.column=32&ax.seed=x';
  const page = await openPage(hash);
  const axes = chapter(page, 'axes');
  expect(await axes.innerText()).toContain(
    '6 channels cannot be split into 4 equal groups, so the figure has 2.',
  );
  expect(await axes.innerText()).toContain('must be a whole number from 1 to 8');
  expect(await axes.locator('.axes-words').innerText()).toContain('Sample 4, channel 6');
});

test('fits 360 px, and has no accessibility finding', LONG, async () => {
  const narrow = await openPage('#axes?ax.channels=8&ax.positions=4', { width: 360, touch: true });
  const width = await narrow.evaluate(() => document.documentElement.scrollWidth);
  expect(width).toBeLessThanOrEqual(360);
  const cells = chapter(narrow, 'axes').getByRole('slider', { name: 'Cell' });
  await cells.tap({ position: { x: 200, y: 60 } });
  expect(await cells.getAttribute('aria-valuetext')).toContain('Sample 1, channel 5');
  const page = await openPage('#axes');
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme });
    expect(await findings(page, '#axes')).toEqual([]);
  }
});
