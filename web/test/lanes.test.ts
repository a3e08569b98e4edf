// The chapter on lanes.

import type { Locator, Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { LONG, chapter, findings, openPage, read, vector } from './page';

/** The fold with any arrangement at one sublayer. */
const anyOf = (lanes: Locator) => lanes.locator('.advanced', { hasText: 'Any arrangement' });

const sum = (values: number[]) => values.reduce((total, v) => total + v, 0);

async function lanesOf(lanes: Locator, id: 'x' | 'next', count: number): Promise<number[][]> {
  return Promise.all(
    Array.from({ length: count }, (_, i) => vector(anyOf(lanes), `${id}-${i + 1}`)),
  );
}

function expectClose(actual: number[], expected: number[]) {
  expect(actual).toHaveLength(expected.length);
  actual.forEach((v, i) => expect(v).toBeCloseTo(expected[i], 5));
}

/** The rows of M, for the inputs of the sublayers only. */
async function mixing(lanes: Locator): Promise<number[][]> {
  const rows = await lanes.locator('tr[data-mixing]').all();
  return Promise.all(
    rows.map(async (row) => (await row.locator('td').allTextContents()).filter(Boolean).map(read)),
  );
}

/** The list of arrangements at the first figure. */
const arrangement = (lanes: Locator) =>
  lanes.getByRole('combobox', { name: 'Arrangement' }).first();

async function open(query = '', more = {}): Promise<[Page, Locator]> {
  const page = await openPage(`#lanes${query && `?${query}`}`, more);
  return [page, chapter(page, 'lanes')];
}

test('one lane is the ordinary residual connection', async () => {
  const [, lanes] = await open('ln.read=1&ln.carry=1&ln.write=1');
  const [[x], [next], f] = [
    await lanesOf(lanes, 'x', 1),
    await lanesOf(lanes, 'next', 1),
    await vector(anyOf(lanes), 'f'),
  ];
  expect(Math.max(...f.map(Math.abs))).toBeGreaterThan(0);
  expectClose(
    next,
    x.map((v, i) => v + f[i]),
  );
  expectClose(await vector(anyOf(lanes), 'z'), x);
  expect(await lanes.innerText()).toContain('x′ = x + F(x), the ordinary residual connection');
  for (const row of (await mixing(lanes)).slice(0, -1))
    expectClose(
      row,
      row.map(() => 1),
    );
});

test('the lanes are read, carried and written by the numbers', async () => {
  const [a, A, b] = [
    [0.5, -1, 0.25],
    [1, 0.5, 0, -0.2, 0.9, 0.1, 0.3, 0, 0.7],
    [1, 0, -2],
  ];
  const [, lanes] = await open(`ln.read=${a}&ln.carry=${A}&ln.write=${b}`);
  const [x, next, f] = [
    await lanesOf(lanes, 'x', 3),
    await lanesOf(lanes, 'next', 3),
    await vector(anyOf(lanes), 'f'),
  ];
  expectClose(
    await vector(anyOf(lanes), 'z'),
    f.map((_, c) => sum(a.map((v, i) => v * x[i][c]))),
  );
  next.forEach((lane, i) => {
    const carried = f.map((_, c) => sum(x.map((of, j) => A[3 * i + j] * of[c])));
    expectClose(
      lane,
      carried.map((v, c) => v + b[i] * f[c]),
    );
  });
});

test('a doubly stochastic carry keeps the mean of the lanes', async () => {
  const carry = '0.5,0.3,0.2,0.2,0.5,0.3,0.3,0.2,0.5';
  const [, lanes] = await open(`ln.read=1,0,0&ln.carry=${carry}&ln.write=0,0,0`);
  const [x, next] = [await lanesOf(lanes, 'x', 3), await lanesOf(lanes, 'next', 3)];
  const mean = (rows: number[][]) => rows[0].map((_, c) => sum(rows.map((row) => row[c])) / 3);
  expect(next).not.toEqual(x);
  expectClose(mean(next), mean(x));
  expect(await lanes.innerText()).toContain('A is doubly stochastic');
});

test('a number is changed by keyboard, and what is shown becomes one’s own', async () => {
  const [page, lanes] = await open('ln.row=mhc&ln.lanes=2');
  const before = await lanesOf(lanes, 'next', 2);
  const field = lanes.getByRole('spinbutton', { name: 'A, from lane 2 into lane 1' });
  expect(Number(await field.getAttribute('aria-valuenow'))).toBeCloseTo(Math.exp(-8), 4);
  expect(await field.inputValue()).toBe('3e−4');
  await field.focus();
  await page.keyboard.press('PageUp');
  expect(await arrangement(lanes).inputValue()).toBe('own');
  expect(await field.inputValue()).toBe('0.5');
  const [x, after] = [await lanesOf(lanes, 'x', 2), await lanesOf(lanes, 'next', 2)];
  const change = 0.5 - Math.exp(-8);
  after[0].forEach((v, c) => expect(v - before[0][c]).toBeCloseTo(change * x[1][c], 2));
  await field.fill('2,5x');
  expect(await field.getAttribute('aria-invalid')).toBe('true');
  expect(await lanesOf(lanes, 'next', 2)).toEqual(after);
  await field.fill('−0.25');
  expect(await field.getAttribute('aria-valuenow')).toBe('-0.25');
  await expect.poll(() => page.url()).toContain('-0.25');
  const again = chapter(await openPage(new URL(page.url()).hash), 'lanes');
  const same = again.getByRole('spinbutton', { name: 'A, from lane 2 into lane 1' });
  expect(await same.inputValue()).toBe('−0.25');
});

test('rows bring their numbers, norms and lanes', async () => {
  const [, lanes] = await open('ln.layers=3&ln.row=pre');
  const choose = (label: string) => arrangement(lanes).selectOption({ label });
  await choose('post-norm');
  const [next] = await lanesOf(lanes, 'next', 1);
  expect(sum(next)).toBeCloseTo(0, 5);
  expect(sum(next.map((v) => v * v)) / next.length).toBeCloseTo(1, 3);
  (await mixing(lanes)).slice(0, -1).forEach((row, l) =>
    expectClose(
      row,
      row.map((_, j) => 2 ** (-(l - Math.max(0, j - 1)) / 2)),
    ),
  );
  await choose('pre-norm');
  for (const row of (await mixing(lanes)).slice(0, -1))
    expectClose(
      row,
      row.map(() => 1),
    );
  await choose('Attention Residuals');
  await lanes.getByRole('slider', { name: 'Sublayer', exact: true }).focus();
  await lanes.page().keyboard.press('End');
  const fields = lanes.getByRole('spinbutton');
  expect(await fields.count()).toBe(4 + 5 * 4 + 5);
  expect(await fields.first().getAttribute('readonly')).not.toBe(null);
  expect(await lanes.innerText()).toContain('the stream grows by a lane');
  const [x, z] = [await lanesOf(lanes, 'x', 4), await vector(anyOf(lanes), 'z')];
  expectClose(
    z,
    z.map((_, c) => sum(x.map((lane) => lane[c])) / 4),
  );
});

test('the cells of M by keyboard', async () => {
  const [page, lanes] = await open('ln.row=post&ln.layers=4');
  const cells = lanes.getByRole('slider', { name: 'Cell of M' });
  await cells.focus();
  for (const key of ['Home', 'ArrowUp', 'ArrowRight', 'ArrowRight']) await page.keyboard.press(key);
  const words = await cells.getAttribute('aria-valuetext');
  expect(words).toContain('the output of sublayer 2');
  expect(await lanes.locator('[data-words=cell]').innerText()).toBe(words);
  await page.keyboard.press('End');
  expect(await cells.getAttribute('aria-valuetext')).toContain('no weight of its row is larger');
});

test('a guess opens the curves: mHC’s lanes melt, hyper-connections amplify', async () => {
  const [page, lanes] = await open();
  const curve = (name: string, chart: number) =>
    lanes.locator(`.line-chart >> nth=${chart} >> tr[data-curve="${name}"] td`);
  await lanes.getByText('Do the lanes stay different?').click();
  expect(await lanes.locator('.line-chart').count()).toBe(0);
  await lanes.getByRole('radio', { name: 'about half' }).check();
  const reply = await lanes.locator('.guess [aria-live]').innerText();
  expect(reply).toMatch(/^Not quite\. From sublayer \d+ on .* the lanes have become equal/);
  const last = async (name: string, chart: number) =>
    read((await curve(name, chart).allTextContents()).at(-1)!);
  expect(await last('mHC', 0)).toBeLessThan(0.01);
  expect(await last('mHC', 1)).toBeCloseTo(1, 5);
  expect(await last('Identity-HC', 0)).toBe(1);
  expect(await last('Identity-HC', 1)).toBe(1);
  expect(await last('hyper-connections', 1)).toBeGreaterThan(1.5);
  await lanes.getByRole('checkbox', { name: 'Learned numbers have changed' }).uncheck();
  expect(await last('hyper-connections', 1)).toBe(1);
  expect(await last('mHC', 0)).toBeGreaterThan(0.8);
  expect(await last('even mixing', 0)).toBeCloseTo((1 - 0.05 * (4 / 3)) ** 48, 6);
  const even = lanes.locator('[data-carried="even"]');
  expect(await even.innerText()).toContain('% of a difference is left');
  await lanes.getByRole('slider', { name: 'Even mixing' }).focus();
  await page.keyboard.press('PageUp');
  await expect.poll(() => even.innerText()).toContain('the lanes have become equal');
  await expect.poll(() => page.url()).toContain('ln.guess=half');
  await lanes.getByRole('button', { name: 'Reset chapter' }).click();
  await lanes.getByText('Do the lanes stay different?').click();
  expect(await lanes.locator('.line-chart').count()).toBe(0);
});

test('the trap: equal lanes teach A nothing, different ones do', async () => {
  const [page, lanes] = await open();
  await lanes.getByText('The symmetry trap').click();
  const gradient = async (id: string) =>
    Promise.all([1, 2, 3].map((i) => vector(lanes, `${id}-${i}`)));
  for (const row of await gradient('d-carry')) expect(new Set(row).size).toBe(1);
  for (const v of (await gradient('d-logits')).flat()) expect(Math.abs(v)).toBeLessThan(1e-12);
  await lanes.getByRole('slider', { name: 'The lanes differ by' }).focus();
  await page.keyboard.press('End');
  for (const row of await gradient('d-carry')) expect(new Set(row).size).toBe(3);
  const most = async () => Math.max(...(await gradient('d-logits')).flat().map(Math.abs));
  const near = await most();
  expect(near).toBeGreaterThan(0.05);
  await lanes.getByRole('radio', { name: '−8, as published' }).check();
  expect((await most()) / near).toBeLessThan(0.01);
});

test('a mangled link gets a word, and numbers that do not fit together are filled up', async () => {
  const [page, lanes] = await open('ln.read=1,2,3&ln.carry=1,1&ln.row=nonsense&ln.write=1e9');
  expect(await page.getByRole('alert').first().innerText()).toContain('ln.row is “nonsense”');
  expect(await lanes.getByRole('spinbutton').count()).toBe(3 + 9 + 3);
  expect((await lanesOf(lanes, 'next', 3)).flat().every(Number.isFinite)).toBe(true);
});

test('fits 360 px, and has no accessibility finding', LONG, async () => {
  const query = 'ln.row=mhc&ln.layers=12&ln.guess=nothing';
  const [narrow, lanes] = await open(query, { width: 360, touch: true });
  const width = await narrow.evaluate(() => document.documentElement.scrollWidth);
  expect(width).toBeLessThanOrEqual(360);
  for (const field of await lanes.getByRole('spinbutton').all()) {
    expect((await field.boundingBox())!.height).toBeGreaterThanOrEqual(44);
  }
  const [page] = await open(query);
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme });
    expect(await findings(page, '#lanes')).toEqual([]);
  }
});
