// Step by step: the reader's own vector through the four steps.

import type { Locator } from 'playwright-core';
import { expect, test } from 'vitest';
import { LONG, chapter, findings, openPage, statistic, vector } from './page';

const ID = 'step-by-step';

async function open(query = '', options = {}) {
  const page = await openPage(`#${ID}${query && `?${query}`}`, options);
  const scope = chapter(page, ID);
  return {
    page,
    scope,
    statistic: (name: string) => statistic(scope, name),
    box: scope.getByRole('textbox', { name: 'Vector', exact: true }),
  };
}

const openConventions = (scope: Locator) => scope.getByText('ε and the variance').click();

interface Convention {
  epsilon?: number;
  beside?: boolean;
  unbiased?: boolean;
  rms?: boolean;
}

/** Computes the norm by its formula. */
function norm(x: number[], { epsilon = 1e-5, beside, unbiased, rms }: Convention = {}) {
  const mean = rms ? 0 : x.reduce((a, b) => a + b, 0) / x.length;
  const squares = x.reduce((sum, v) => sum + (v - mean) ** 2, 0);
  const variance = squares / (unbiased ? x.length - 1 : x.length);
  const deviation = beside ? Math.sqrt(variance) + epsilon : Math.sqrt(variance + epsilon);
  return { mean, variance, deviation, normalized: x.map((v) => (v - mean) / deviation) };
}

function expectClose(got: number[], expected: number[]) {
  expect(got).toHaveLength(expected.length);
  got.forEach((v, i) => expect(Math.abs(v - expected[i])).toBeLessThan(1e-6 * (1 + Math.abs(v))));
}

test('1, 2, 3, 4 at first; what is typed or pasted follows, in any brackets', async () => {
  const { scope, statistic, box } = await open();
  expect(await box.inputValue()).toBe('1, 2, 3, 4');
  expect(await statistic('mean')).toBe(2.5);
  expect(await statistic('variance')).toBe(1.25);
  expect(await statistic('deviation')).toBeCloseTo(1.1180385, 6);
  expectClose(await vector(scope, 'x'), [1, 2, 3, 4]);
  expectClose(await vector(scope, 'normalized'), [-1.341635, -0.447212, 0.447212, 1.341635]);

  await box.fill('[3 -1; 4, 1.5e0\n-5]');
  const x = [3, -1, 4, 1.5, -5];
  expectClose(await vector(scope, 'x'), x);
  expectClose(await vector(scope, 'normalized'), norm(x).normalized);
  expect(await statistic('deviation')).toBeCloseTo(norm(x).deviation, 5);
});

const conventions: Record<string, Convention> = {
  'Llama 3': { rms: true },
  BERT: { epsilon: 1e-12 },
  PyTorch: {},
  'From scratch': { epsilon: 1e-6, beside: true, unbiased: true },
  'Chapter 1': { epsilon: 1e-8 },
};

test('the named conventions, one click each', async () => {
  const { scope, statistic } = await open('st.x=1,2,3,5');
  await scope.getByText('As in PyTorch').click();
  for (const [name, convention] of Object.entries(conventions)) {
    const button = scope.getByRole('button', { name, exact: true });
    await button.click();
    await expect.poll(() => button.getAttribute('aria-pressed')).toBe('true');
    expect(await scope.locator('[aria-pressed=true]').count()).toBe(1);
    const expected = norm([1, 2, 3, 5], convention);
    const hasMean = (await scope.locator('[data-stat="mean"]').count()) > 0;
    expect(hasMean).toBe(!convention.rms);
    if (hasMean) expect(await statistic('mean')).toBeCloseTo(expected.mean, 6);
    expect(await statistic('variance')).toBeCloseTo(expected.variance, 5);
    expect(await statistic('deviation')).toBeCloseTo(expected.deviation, 6);
    expectClose(await vector(scope, 'normalized'), expected.normalized);
  }
});

test('γ and β, each part of the norm, and the link that reopens it', async () => {
  const { page, scope } = await open('st.x=2,7,1,8');
  await openConventions(scope);
  await scope.getByLabel('RMSNorm').check();
  await scope.getByLabel('1e-3', { exact: true }).check();
  await scope.getByLabel('√Var + ε').check();
  await scope.getByLabel('÷ (n − 1)').check();
  await scope.getByRole('slider', { name: 'Scale γ' }).fill('1.5');
  await scope.getByRole('slider', { name: 'Shift β' }).fill('-0.5');
  const convention = { epsilon: 1e-3, beside: true, unbiased: true, rms: true };
  const expected = norm([2, 7, 1, 8], convention).normalized.map((v) => 1.5 * v - 0.5);
  expectClose(await vector(scope, 'output'), expected);
  await page.waitForURL(/st\.beta=-0\.5/);

  const again = await open(new URL(page.url()).hash.split('?')[1]);
  expectClose(await vector(again.scope, 'output'), expected);
  await again.scope.getByRole('button', { name: 'Reset chapter' }).click();
  expectClose(await vector(again.scope, 'output'), norm([1, 2, 3, 4]).normalized);
});

test('512 features: a histogram, no handles, and a short link', async () => {
  const { page, scope, statistic } = await open();
  await scope.getByRole('button', { name: '512 features' }).click();
  const x = await vector(scope, 'x');
  expect(x).toHaveLength(512);
  expect(x.slice(0, 4)).toEqual([0.146, 0.108, 0.192, 0.155]);
  expect(await statistic('mean')).toBeCloseTo(0.135, 3);
  expectClose(await vector(scope, 'normalized'), norm(x).normalized);
  expect(await scope.getByRole('slider', { name: /^value/ }).count()).toBe(0);
  expect(await scope.getByRole('img', { name: 'Histograms before and after' }).count()).toBe(1);
  await page.waitForURL(/st\.x=512-features/);
  expect(page.url().length).toBeLessThan(100);
});

test('bars move by keyboard and by dragging, and the scale stays while they are dragged', async () => {
  const { page, scope } = await open();
  const bar = scope.getByRole('slider', { name: 'value 1' });
  await bar.focus();
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('PageUp');
  expect((await vector(scope, 'x'))[0]).toBeCloseTo(1.9, 9);

  const largest = scope.getByRole('slider', { name: 'value 4' });
  await largest.scrollIntoViewIfNeeded();
  const { x, y, width, height } = (await largest.boundingBox())!;
  await page.mouse.move(x + width / 2, y + height * 0.2);
  await page.mouse.down();
  await page.mouse.move(x + width / 2, y + height * 0.5, { steps: 8 });
  expect((await vector(scope, 'x'))[3]).toBeCloseTo(0, 0);
  await page.mouse.move(x + width / 2, y - 300, { steps: 8 });
  expect((await vector(scope, 'x'))[3]).toBe(5);
  await page.mouse.up();
  expectClose(await vector(scope, 'normalized'), norm(await vector(scope, 'x')).normalized);
});

test('the code stays beside the cards and lights the step at the pointer, at the focus or in view', async () => {
  const { page, scope } = await open('st.epsilon=1e-6');
  const lit = (step: number, language: string) =>
    scope
      .getByRole('region', { name: `Step ${step} in ${language}`, exact: true })
      .locator('mark')
      .allTextContents();
  const card = (step: number) => scope.locator('.st-card').nth(step - 1);
  /** Scrolls to a card first, because a card in the middle of the window is lit as well. */
  const point = async (step: number) => {
    await card(step).scrollIntoViewIfNeeded();
    await page.mouse.move(0, 0);
    await page.waitForTimeout(200);
    await card(step).hover();
  };
  expect(await scope.locator('.st-code pre').count()).toBe(1);
  await point(1);
  expect(await lit(1, 'Python')).toEqual(['mean = sum(x) / n']);
  await point(2);
  expect(await lit(2, 'Python')).toEqual([
    'squares = sum((v - mean) ** 2 for v in x)',
    'variance = squares / n',
    'deviation = sqrt(variance + epsilon)',
  ]);
  await point(3);
  expect(await lit(3, 'Python')).toEqual(['x_hat = [(v - mean) / deviation for v in x]']);
  expect(await scope.locator('.st-code pre').isVisible()).toBe(true);
  await card(4).getByRole('slider', { name: 'Scale γ' }).focus();
  expect((await lit(4, 'Python'))[0]).toBe('return [g * v + b');

  await scope.getByRole('radio', { name: 'JavaScript' }).focus();
  await page.keyboard.press('Space');
  await point(2);
  await scope.getByLabel('÷ (n − 1)').check();
  await scope.getByLabel('√Var + ε').check();
  await point(2);
  expect((await lit(2, 'JavaScript')).slice(1)).toEqual([
    'const variance = squares / (n - 1);',
    'const deviation = Math.sqrt(variance) + epsilon;',
  ]);
  await scope.getByLabel('RMSNorm').check();
  await point(3);
  expect(await lit(3, 'JavaScript')).toEqual(['const xHat = x.map((v) => v / deviation);']);
  await page.waitForURL(/st\.language=javascript/);

  const presented = await openPage('?present=6#step-by-step?st.language=cpp', { level: 0 });
  const shown = chapter(presented, ID).locator('.st-code pre');
  await expect.poll(() => shown.isVisible()).toBe(true);
});

test('on a wide screen the code is in view at every card', async () => {
  const { scope } = await open('', { width: 1280, height: 800 });
  for (const card of await scope.locator('.st-card').all()) {
    await card.evaluate((e) => e.scrollIntoView({ block: 'center' }));
    const { y, height } = (await scope.locator('.st-code pre').boundingBox())!;
    expect(y).toBeGreaterThanOrEqual(0);
    expect(y + height).toBeLessThanOrEqual(800);
  }
});

test('the example of torch.randn: mean 0.184 becomes 0, deviation 9.830 becomes 1', async () => {
  const { scope } = await open();
  await scope.getByRole('button', { name: 'torch.randn · 10 + 5' }).click();
  expect((await statistic(scope, 'mean')).toFixed(3)).toBe('0.183');
  const cells = async (id: string) =>
    (await scope.locator(`tr[data-measured="${id}"] td`).allTextContents()).map(Number);
  expect((await cells('x'))[1]).toBeCloseTo(9.83, 2);
  const [mean, deviation] = await cells('normalized');
  expect([mean, deviation]).toEqual([0, 1]);
});

test('a random vector has eight new values each time', async () => {
  const { scope } = await open();
  const random = scope.getByRole('button', { name: 'Random' });
  await random.click();
  const first = await vector(scope, 'x');
  expect(first).toHaveLength(8);
  await random.click();
  expect(await vector(scope, 'x')).not.toEqual(first);
});

test('says what the norm ignores', async () => {
  const { scope } = await open();
  const change = async (name: string) =>
    (await scope.locator(`[data-change="${name}"] .katex-mathml annotation`).textContent())!;
  expect(await change('x + 10')).toBe('0');
  expect(await change('10 · x')).toBe('5.3{\\times}10^{-6}');
  await scope.getByRole('button', { name: 'Add 10' }).click();
  expectClose(await vector(scope, 'x'), [11, 12, 13, 14]);
  expectClose(await vector(scope, 'normalized'), norm([1, 2, 3, 4]).normalized);
  await scope.getByLabel('RMSNorm').check();
  expect(Number(await change('x + 10'))).toBeGreaterThan(0.05);
});

test('bad input: a word beside the field, and the last good vector stays', async () => {
  const { scope, box } = await open();
  const bad: [text: string, complaint: RegExp][] = [
    ['one two', /“one” as item 1, which is not a finite number/],
    ['  ', /is empty/],
    ['1, NaN', /“NaN” as item 2/],
    ['Infinity', /“Infinity” as item 1/],
    ['1 '.repeat(10_000), /has 10,000 values; it must have from 1 to 1024/],
    ['1e306, 2', /must be from/],
  ];
  for (const [text, complaint] of bad) {
    await box.fill(text);
    expect(await scope.locator('.text-field .problem').textContent()).toMatch(complaint);
    expect(await box.getAttribute('aria-invalid')).toBe('true');
    expectClose(await vector(scope, 'x'), [1, 2, 3, 4]);
  }
  await box.fill('4, 5');
  expect(await scope.locator('.text-field .problem').textContent()).toBe('');
});

test('by keyboard alone', async () => {
  const { page, scope, box } = await open();
  await openConventions(scope);
  await box.focus();
  await page.keyboard.press('Control+a');
  await page.keyboard.type('2 4');
  expectClose(await vector(scope, 'x'), [2, 4]);
  const press = async (...keys: string[]) => {
    for (const key of keys) await page.keyboard.press(key);
  };
  await press('Tab', 'Tab', 'Tab', 'Tab', 'Enter'); // 1, 2, 3, 4; random; torch.randn; wide spread
  expect(await vector(scope, 'x')).toHaveLength(8);
  await scope.getByLabel('LayerNorm').focus();
  await press('ArrowRight'); // RMSNorm
  await scope.getByLabel('÷ n', { exact: true }).focus();
  await press('Tab', 'Tab', 'ArrowRight'); // the place of ε; ε = 1e-3
  await scope.getByRole('slider', { name: 'Scale γ' }).focus();
  await press('End');
  const x = await vector(scope, 'x');
  const expected = norm(x, { rms: true, epsilon: 1e-3 }).normalized.map((v) => 3 * v);
  expectClose(await vector(scope, 'output'), expected);
});

test('edges: one value, equal values, 0 ÷ 0, 1e300', async () => {
  const { scope, box, statistic } = await open();
  await openConventions(scope);
  const remark = () => scope.locator('.st-remark').allTextContents();
  await box.fill('5');
  expect(await vector(scope, 'normalized')).toEqual([0]);
  expect((await remark()).join()).toContain('single value');
  await scope.getByLabel('÷ (n − 1)').check();
  expect(await scope.locator('.text-field .problem').textContent()).toContain('at least 2 values');
  await scope.getByLabel('÷ n', { exact: true }).check();

  await box.fill('3 3 3');
  expect(await vector(scope, 'normalized')).toEqual([0, 0, 0]);
  await scope.getByLabel('0', { exact: true }).check();
  expect((await remark()).join()).toContain('NaN');

  await box.fill('1e300, 2e300, -1e300');
  expect((await remark()).join()).toContain('too large');
  expect(await statistic('variance')).toBe(Infinity);
  expect(await statistic('deviation')).toBeCloseTo(1.247219e300, -295);
  expectClose(await vector(scope, 'normalized'), norm([1, 2, -1], { epsilon: 0 }).normalized);
});

test('a hand-mangled link: a word, and the rest of it', async () => {
  const { page, scope } = await open('st.x=1,cat&st.gamma=2&st.epsilon=7');
  expect(await page.getByRole('alert').textContent()).toContain('st.epsilon');
  expect(await scope.locator('.text-field .problem').textContent()).toContain('“cat”');
  expectClose(
    await vector(scope, 'output'),
    norm([1, 2, 3, 4]).normalized.map((v) => 2 * v),
  );
});

test.each(['light', 'dark'] as const)('no accessibility finding, %s', LONG, async (theme) => {
  const { page, scope } = await open('', { theme });
  expect(await findings(page, `#${ID}`)).toEqual([]);
  await scope.getByRole('button', { name: 'Equal values' }).click();
  await page.getByRole('button', { name: 'Show numbers' }).click();
  expect(await findings(page, `#${ID}`)).toEqual([]);
});

test('fits 360 px, with long numbers too', LONG, async () => {
  for (const x of [
    '3,3,3,3,3,3,3,3,1,2,3,9',
    '512-features',
    '-1234.5678,0.001234567,-1e300,98765.4321,-7e-9',
  ]) {
    const { scope } = await open(`st.x=${x}`, { width: 360 });
    const widest = await scope.evaluate((section) => {
      const inSight = [...section.querySelectorAll('*')].filter(
        (e) => !e.closest('.numbers, .scroll, .formula'),
      );
      return Math.max(...inSight.map((e) => e.getBoundingClientRect().right));
    });
    expect(widest).toBeLessThanOrEqual(360);
    const overflowing = await scope
      .locator('.formula')
      .evaluateAll((formulas) =>
        formulas.filter((e) => e.scrollWidth > e.clientWidth + 1).map((e) => e.textContent),
      );
    expect(overflowing).toEqual([]);
  }
});
