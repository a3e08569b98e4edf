// The chapter “The block”.

import type { Locator } from 'playwright-core';
import { expect, test } from 'vitest';
import { LONG, chapter, findings, openPage, read, vector } from './page';

function count(d: number, ff: number): number {
  return 4 * (d * d + d) + (d * ff + ff) + (ff * d + d) + 2 * 2 * d;
}

async function parameters(block: Locator, part: string): Promise<number> {
  const text = await block.locator(`tr[data-part="${part}"] td`).innerText();
  return Number(text.replaceAll(',', ''));
}

test('counts the parameters of the reader’s block', async () => {
  const page = await openPage('#block');
  const block = chapter(page, 'block');
  expect(await parameters(block, 'block')).toBe(3152384);
  expect(await parameters(block, 'attention')).toBe(1050624);
  expect(await parameters(block, 'layers')).toBe(6 * 3152384);
  for (const [preset, d, ff, layers] of [
    ['GPT-2 small', 768, 3072, 12],
    ['GPT-3', 12288, 49152, 96],
  ] as const) {
    await block.getByRole('button', { name: preset }).click();
    expect(await parameters(block, 'block')).toBe(count(d, ff));
    expect(await parameters(block, 'layers')).toBe(layers * count(d, ff));
  }
  await block.getByRole('textbox', { name: 'd_model' }).fill('96');
  await block.getByRole('textbox', { name: 'd_ff' }).fill('100');
  expect(await parameters(block, 'block')).toBe(count(96, 100));
});

test('post-norm changes diagram, equation and code, not the count; a link keeps it', async () => {
  const page = await openPage('#block?bl.dModel=64&bl.heads=4&bl.dFf=100');
  const block = chapter(page, 'block');
  await block.getByText('The same block as code').click();
  const steps = () => block.locator('.figure').first().locator('tbody th').allTextContents();
  expect((await steps())[0]).toBe('LayerNorm');
  await block.getByRole('radio', { name: 'C++ with addnorm' }).check();
  expect(await block.getByRole('region', { name: 'block.cc' }).innerText()).toContain('("pre")');
  await block.getByRole('radio', { name: 'post-norm' }).first().check();
  expect((await steps()).at(-1)).toBe('LayerNorm');
  expect(await parameters(block, 'block')).toBe(count(64, 100));
  expect(await block.getByRole('region', { name: 'block.cc' }).innerText()).toContain('("post")');
  await block.getByRole('radio', { name: 'Python with PyTorch' }).check();
  const python = block.getByRole('region', { name: 'block.py' });
  expect(await python.innerText()).toMatch(/d_model = 64\nn_heads = 4\nd_ff = 100\n/);
  expect(await python.innerText()).toContain('norm(x + sublayer(x))');

  // Python is the default, so the link does not name it.
  await expect.poll(() => page.url()).toMatch(/bl\.placement=post(?!.*language)/);
  const again = chapter(await openPage(new URL(page.url()).hash), 'block');
  expect(await again.getByRole('radio', { name: 'post-norm' }).first().isChecked()).toBe(true);
  await again.getByText('The same block as code').click();
  expect(await again.getByRole('region', { name: 'block.py' }).isVisible()).toBe(true);
});

test('the causal mask: in the drawing, the code, the weights and what an output depends on', async () => {
  const page = await openPage('#block');
  const block = chapter(page, 'block');
  await block.getByText('The same block as code').click();
  await block.getByRole('radio', { name: 'C++ with addnorm' }).check();
  const steps = () => block.locator('.figure').first().locator('tbody th').allTextContents();
  const weights = async (row: number) =>
    (await block.locator(`tr[data-weights="${row}"] td`).allTextContents()).map(read);
  const sum = (values: number[]) => values.reduce((a, b) => a + b, 0);
  const before = (await steps()).length;
  expect((await vector(block, 'changes')).every((change) => change > 0)).toBe(true);
  for (const row of [1, 4, 6]) {
    expect(sum(await weights(row))).toBeCloseTo(1, 5);
    expect((await weights(row)).every((weight) => weight > 0)).toBe(true);
  }
  await block.getByRole('radio', { name: 'Only its own' }).check();
  expect(await block.locator('.guess').innerText()).toContain('Not quite. 3 of 6 outputs change');
  expect(await block.getByRole('checkbox', { name: 'Causal mask' }).first().isChecked()).toBe(true);
  expect(await steps()).toHaveLength(before + 1);
  expect(await steps()).toContain('later tokens: −∞');
  expect(await block.getByRole('region', { name: 'block.cc' }).innerText()).toContain(
    'causal = true',
  );
  for (const row of [1, 4, 6]) {
    expect(sum(await weights(row))).toBeCloseTo(1, 5);
    expect((await weights(row)).map((weight) => weight > 0)).toEqual(
      [1, 2, 3, 4, 5, 6].map((column) => column <= row),
    );
  }
  expect((await vector(block, 'changes')).map((change) => change > 0)).toEqual(
    [1, 2, 3, 4, 5, 6].map((token) => token >= 4),
  );
  expect(await block.locator('[data-verdict=mask]').innerText()).toContain(
    'no output before it has changed by a single bit',
  );
});

test('heads that do not divide d_model, and text that is no number, get a word', async () => {
  const page = await openPage('#block?bl.dFf=1e300');
  const block = chapter(page, 'block');
  const heads = block.getByRole('textbox', { name: 'n_heads' });
  expect(await block.innerText()).toContain('d_ff is 1e300; it must be a whole number');
  await heads.fill('7');
  expect(await block.innerText()).toContain('must divide d_model = 512, as 4 and 8 do.');
  expect(await heads.getAttribute('aria-invalid')).toBe('true');
  await heads.fill('many');
  expect(await block.innerText()).toContain('n_heads is “many”; it must be a number.');
  await heads.fill('16');
  expect(await heads.getAttribute('aria-invalid')).toBe('false');
});

test('by keyboard alone', async () => {
  const page = await openPage('#block');
  const block = chapter(page, 'block');
  await block.getByRole('textbox', { name: 'd_model' }).focus();
  await page.keyboard.press('ControlOrMeta+a');
  await page.keyboard.type('768');
  for (let i = 0; i < 4; i++) await page.keyboard.press('Tab');
  await page.keyboard.press('ArrowRight');
  expect(await parameters(block, 'block')).toBe(count(768, 2048));
  expect(await block.getByRole('radio', { name: 'post-norm' }).first().isChecked()).toBe(true);
});

test('fits 360 px, and has no accessibility finding', LONG, async () => {
  const hash = '#block?bl.dModel=65536&bl.heads=256&bl.dFf=262144&bl.layers=1000';
  const narrow = await openPage(hash, { width: 360 });
  const width = await narrow.evaluate(() => document.documentElement.scrollWidth);
  expect(width).toBeLessThanOrEqual(360);
  const page = await openPage('#block');
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme });
    expect(await findings(page, '#block')).toEqual([]);
  }
});
