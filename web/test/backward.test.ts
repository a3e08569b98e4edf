// The chapter “Backward”: the gradient through the norm.

import { expect, test } from 'vitest';
import { LONG, chapter, findings, openPage, statistic, vector } from './page';

const ID = 'backward';

async function open(query = '', options = {}) {
  const page = await openPage(`#${ID}${query && `?${query}`}`, options);
  const scope = chapter(page, ID);
  return { page, scope, statistic: (name: string) => statistic(scope, name) };
}

const mean = (a: number[]) => a.reduce((sum, v) => sum + v, 0) / a.length;
const times = (a: number[], b: number[]) => a.map((v, i) => v * b[i]);

/** Computes dx by the formula. */
function backward(x: number[], dy: number[], gamma = 1, rms = false) {
  const centre = rms ? 0 : mean(x);
  const deviation = Math.sqrt(mean(x.map((v) => (v - centre) ** 2)) + 1e-5);
  const normalized = x.map((v) => (v - centre) / deviation);
  const g = dy.map((v) => gamma * v);
  const alongOnes = rms ? 0 : mean(g);
  const along = mean(times(g, normalized));
  return {
    dx: g.map((v, i) => (v - alongOnes - normalized[i] * along) / deviation),
    alongOnes,
    alongNormalized: normalized.map((v) => v * along),
  };
}

function expectClose(got: number[], expected: number[]) {
  expect(got).toHaveLength(expected.length);
  got.forEach((v, i) => expect(Math.abs(v - expected[i])).toBeLessThan(1e-6 * (1 + Math.abs(v))));
}

async function expectGradient(scope: ReturnType<typeof chapter>, gamma = 1, rms = false) {
  const [x, dy] = [await vector(scope, 'x'), await vector(scope, 'dy')];
  const expected = backward(x, dy, gamma, rms);
  expectClose(await vector(scope, 'dx'), expected.dx);
  const alongOnes = rms ? [] : x.map(() => expected.alongOnes); // RMSNorm removes none
  expectClose(await vector(scope, 'gradient-mean'), alongOnes);
  expectClose(await vector(scope, 'gradient-normalized'), expected.alongNormalized);
}

test('dx follows the formula: at first, with γ, with RMSNorm, and from its link', async () => {
  const { page, scope, statistic } = await open();
  await expectGradient(scope);
  expect(Math.abs(await statistic('sum'))).toBeLessThan(1e-12);
  expect(Math.abs(await statistic('sum-normalized'))).toBeLessThan(1e-4);
  await scope.getByRole('slider', { name: 'Scale γ' }).first().fill('2.5');
  await expectGradient(scope, 2.5);
  await scope.getByLabel('RMSNorm').first().check();
  await expectGradient(scope, 2.5, true);
  expect(Math.abs(await statistic('sum'))).toBeGreaterThan(0.1);
  await page.waitForURL(/bw\.norm=rms/);
  const again = await open(new URL(page.url()).hash.split('?')[1]);
  await expectGradient(again.scope, 2.5, true);
});

test('a bar of dy moves dx, by keyboard and by dragging; undo takes it back', async () => {
  const { page, scope } = await open();
  const bar = scope.getByRole('slider', { name: 'dy 2' });
  const before = await vector(scope, 'dx');
  await bar.focus();
  await page.keyboard.press('PageUp');
  expect((await vector(scope, 'dy'))[1]).toBeCloseTo(0.5, 9);
  await expectGradient(scope);
  await page.keyboard.press('Control+z');
  expect(await vector(scope, 'dx')).toEqual(before);

  const { x, y, width, height } = (await bar.boundingBox())!;
  await page.mouse.move(x + width / 2, y + height / 2);
  await page.mouse.down();
  await page.mouse.move(x + width / 2, y - 50, { steps: 4 });
  await page.mouse.up();
  expect((await vector(scope, 'dy'))[1]).toBe(3);
  await expectGradient(scope);
});

test('the examples: what is along 1 or along x̂ does not come through', async () => {
  const { scope, statistic } = await open();
  await scope.getByRole('button', { name: 'dy = (1, …, 1)' }).click();
  expectClose(await vector(scope, 'dx'), [0, 0, 0, 0, 0, 0]);
  await scope.getByLabel('RMSNorm').first().check();
  expect(await statistic('length-dx')).toBeGreaterThan(0.1);
  await scope.getByRole('button', { name: 'dy = x̂' }).click();
  expect(await statistic('length-dx')).toBeLessThan(1e-4);
  await scope.getByRole('button', { name: 'dy of one feature' }).click();
  expect(await vector(scope, 'dy')).toEqual([0, 0, 1, 0, 0, 0]);
  await scope.getByRole('button', { name: 'Random dy' }).click();
  await expectGradient(scope, 1, true);
  await scope.getByRole('button', { name: 'Reset chapter' }).click();
  expect((await vector(scope, 'dy'))[0]).toBe(1);
});

test('a guess shows what was asked, whatever the figure was set to', async () => {
  const { scope } = await open('bw.norm=rms&bw.gamma=2');
  const guess = scope.getByRole('group', { name: /^LayerNorm gets dy/ });
  await guess.getByRole('radio', { name: '(1, …, 1) ÷ σ' }).check();
  expect(await scope.locator('.guess').innerText()).toMatch(
    /Not quite\. The largest \|dx\| is 0\./,
  );
  expect(await vector(scope, 'dy')).toEqual([1, 1, 1, 1, 1, 1]);
  expect(await scope.getByLabel('LayerNorm').first().isChecked()).toBe(true);
  await expectGradient(scope, 2);
  await guess.getByRole('radio', { name: 'Zero' }).check();
  expect(await scope.locator('.guess').innerText()).toContain('Right.');
});

test('a larger x: dx shrinks as 1/σ', async () => {
  const { scope, statistic } = await open();
  const product = async () => (await statistic('length-dx')) * (await statistic('deviation'));
  const [length, kept] = [await statistic('length-dx'), await product()];
  await scope.getByRole('slider', { name: 'Size of x' }).first().fill('2');
  expect(length / (await statistic('length-dx'))).toBeCloseTo(100, 2);
  expect(await product()).toBeCloseTo(kept, 4);
  await expectGradient(scope);
});

test('a zero gradient and an x without spread are told in words', async () => {
  const { scope } = await open('bw.x=1,1,1,1,1,1&bw.dy=0,0,0,0,0,0');
  const verdict = scope.locator('[data-verdict="gradient"]');
  expect(await verdict.textContent()).toContain('dy is zero');
  await scope.getByRole('button', { name: 'dy of one feature' }).click();
  expect(await verdict.textContent()).toContain('only ε keeps σ above 0');
  await expectGradient(scope);
});

test('a hand-mangled link: a word, and the rest of it', async () => {
  const { page, scope } = await open('bw.dy=1,2&bw.gamma=2&bw.size=9');
  expect(await page.getByRole('alert').textContent()).toContain('bw.size');
  expect(await scope.getByText('dy has 2 values; it must have 6').count()).toBe(1);
  await expectGradient(scope, 2);
});

test('leads back to the chapters about the residual', async () => {
  const { page, scope } = await open();
  await scope.getByRole('link', { name: 'The highway' }).click();
  expect(new URL(page.url()).hash).toBe('#highway');
});

test.each(['light', 'dark'] as const)('no accessibility finding, %s', LONG, async (theme) => {
  const { page } = await open('', { theme });
  await page.getByRole('button', { name: 'Show numbers' }).click();
  expect(await findings(page, `#${ID}`)).toEqual([]);
});

test('fits 360 px', LONG, async () => {
  for (const query of ['', 'bw.size=-1&bw.gamma=3', 'bw.size=2&bw.dy=3,-3,3,-3,3,-3']) {
    const { scope } = await open(query, { width: 360, touch: true });
    const widest = await scope.evaluate((section) => {
      const inSight = [...section.querySelectorAll('*')].filter(
        (e) => !e.closest('.numbers, .scroll, .formula'),
      );
      return Math.max(...inSight.map((e) => e.getBoundingClientRect().right));
    });
    expect(widest).toBeLessThanOrEqual(360);
    const handle = await scope.getByRole('slider', { name: 'dy 1' }).boundingBox();
    expect(handle!.width).toBeGreaterThanOrEqual(24);
  }
});
