// The geometry of LayerNorm: a point in space that is dragged and typed, forward and backward.

import type { Locator, Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { LONG, chapter, dragByFinger, findings, openPage, read, vector } from './page';

const ID = 'geometry';
const EPSILON = 1e-5;

async function open(query = '', options = {}) {
  const page = await openPage(`#${ID}${query && `?${query}`}`, options);
  return { page, scope: chapter(page, ID) };
}

const sum = (a: number[]) => a.reduce((total, v) => total + v, 0);
const dot = (a: number[], b: number[]) => sum(a.map((v, i) => v * b[i]));

function expectClose(got: number[], expected: number[], within = 1e-6) {
  expect(got).toHaveLength(expected.length);
  got.forEach((v, i) => expect(Math.abs(v - expected[i])).toBeLessThan(within));
}

/** Computes the steps by their formulas. */
function steps(x: number[], rms: boolean, gamma: number[], beta: number[]) {
  const mean = rms ? 0 : sum(x) / 3;
  const centred = x.map((v) => v - mean);
  const deviation = Math.sqrt(dot(centred, centred) / 3 + EPSILON);
  const normalized = centred.map((v) => v / deviation);
  return {
    centred,
    deviation,
    normalized,
    output: normalized.map((v, i) => gamma[i] * v + beta[i]),
  };
}

const GAMMA = [1.3, 0.8, 0.5];
const BETA = [0.4, 0.1, 0.6];

async function expectSteps(scope: Locator, gamma = GAMMA, beta = BETA, within = 1e-6) {
  for (const kind of ['layer', 'rms']) {
    const x = await vector(scope, `${kind}-x`);
    const expected = steps(x, kind === 'rms', gamma, beta);
    for (const step of ['centred', 'normalized', 'output'] as const) {
      expectClose(await vector(scope, `${kind}-${step}`), expected[step], within);
    }
  }
}

/** The chapter that has the backward figures. */
async function backwardOf(page: Page): Promise<Locator> {
  const part = chapter(page, 'backward');
  await part.evaluate((element) => element.scrollIntoView());
  await part.locator('.chapter-room').waitFor({ state: 'detached' });
  const fold = part.locator('.advanced');
  if (!(await fold.evaluate((e) => (e as HTMLDetailsElement).open)))
    await fold.locator('summary').first().click();
  return part;
}

async function expectGradient(scope: Locator) {
  const back = await backwardOf(scope.page());
  for (const kind of ['layer', 'rms']) {
    const x = await vector(scope, `${kind}-x`);
    const g = await vector(back, `${kind}-g`);
    const { normalized, deviation } = steps(x, kind === 'rms', GAMMA, BETA);
    const along = kind === 'rms' ? 0 : sum(g) / 3;
    const part = dot(g, normalized) / 3;
    const dx = g.map((v, i) => (v - along - part * normalized[i]) / deviation);
    expectClose(await vector(back, `${kind}-dx`), dx);
    expectClose(await vector(back, `${kind}-along-1`), [along, along, along]);
    const remainder = await vector(back, `${kind}-remainder`);
    expectClose(
      remainder,
      dx.map((v) => v * deviation),
    );
    // Perpendicular to the removed directions, up to ε.
    expect(Math.abs(dot(remainder, normalized))).toBeLessThan(2e-4);
    if (kind === 'layer') expect(Math.abs(sum(remainder))).toBeLessThan(1e-6);
  }
}

const number = async (scope: Locator, row: string, column: number) =>
  Number(await scope.locator(`tr[${row}] td`).nth(column).locator('data').getAttribute('value'));

test('x̂ lies in the plane and on the circle, or on the sphere; dx is tangent', async () => {
  const { page, scope } = await open();
  await expectSteps(scope);
  await expectGradient(scope);
  expect(Math.abs(await number(scope, 'data-forward=sum', 0))).toBeLessThan(1e-12);
  for (const column of [0, 1]) {
    expect(await number(scope, 'data-forward=length', column)).toBeCloseTo(Math.sqrt(3), 4);
  }
  await scope.getByRole('radio', { name: '+ β' }).check();
  await scope.getByRole('textbox', { name: 'γ' }).fill('0.5, 2, 1');
  await scope.getByRole('textbox', { name: 'β' }).fill('0, 0, -1');
  await scope.getByRole('textbox', { name: 'x' }).fill('0.3, 1.7, -2');
  await expectSteps(scope, [0.5, 2, 1], [0, 0, -1]);
  await expect.poll(() => page.url()).toContain('ge.x=0.3,1.7,-2');
  const again = await open(new URL(page.url()).hash.split('?')[1]);
  await expectSteps(again.scope, [0.5, 2, 1], [0, 0, -1]);
});

test('x is dragged parallel to the picture, and the rest follows; undo takes it back', async () => {
  const { page, scope } = await open('ge.turn=0&ge.tilt=0'); // feature 2 points right, 3 up
  const handle = scope.getByRole('slider', { name: 'x in LayerNorm' });
  await handle.hover(); // waits until it is still
  const before = await vector(scope, 'layer-x');
  const { x, y, width, height } = (await handle.boundingBox())!;
  await page.mouse.move(x + width / 2, y + height / 2);
  await page.mouse.down();
  await page.mouse.move(x + width / 2 + 60, y + height / 2 - 30, { steps: 4 });
  await page.mouse.up();
  const after = await vector(scope, 'layer-x');
  expect(after[0]).toBe(before[0]);
  expect((after[1] - before[1]) / (after[2] - before[2])).toBeCloseTo(2, 1);
  expect(after[2]).toBeGreaterThan(before[2]);
  expect(await vector(scope, 'rms-x')).toEqual(after);
  await expectSteps(scope);
  await page.keyboard.press('Control+z');
  expect(await vector(scope, 'layer-x')).toEqual(before);
});

test('x and the view follow the pointer where a presentation makes all larger', async () => {
  const page = await openPage('?present=1#geometry?ge.turn=0&ge.tilt=0', {
    level: 0,
    width: 1920,
    height: 3000, // leaves room for a larger step
  });
  const scope = chapter(page, ID);
  const handle = scope.getByRole('slider', { name: 'x in LayerNorm' });
  await handle.hover();
  const scale = () =>
    scope
      .locator('.drawing')
      .first()
      .evaluate(
        (e) => e.getBoundingClientRect().width / (e as SVGSVGElement).viewBox.baseVal.width,
      );
  expect(await scale()).toBeGreaterThan(1.2);
  const centre = async () => {
    const { x, y, width, height } = (await handle.locator('.geo-knob').boundingBox())!;
    return [x + width / 2, y + height / 2];
  };
  const [x, y] = await centre();
  await page.mouse.move(x, y);
  await page.mouse.down();
  await page.mouse.move(x + 80, y - 40, { steps: 4 });
  await page.mouse.up();
  const [movedX, movedY] = await centre();
  expect(Math.abs(movedX - x - 80)).toBeLessThan(3); // x has two decimals
  expect(Math.abs(movedY - y + 40)).toBeLessThan(3);

  const ground = scope.getByRole('slider', { name: 'View of LayerNorm', exact: true });
  const { x: left, y: top } = (await ground.boundingBox())!;
  await page.mouse.move(left + 20, top + 20);
  await page.mouse.down();
  await page.mouse.move(left + 120, top + 20, { steps: 4 });
  await page.mouse.up();
  const turned = Number(await ground.getAttribute('aria-valuenow'));
  expect(Math.abs(turned + 50 / (await scale()))).toBeLessThanOrEqual(1);
});

test('the ground turns the view; no number changes with it', async () => {
  const { page, scope } = await open();
  const ground = scope.getByRole('slider', { name: 'View of LayerNorm', exact: true });
  await ground.hover();
  const knob = () => scope.locator('.geo-knob').first().getAttribute('cx');
  const [numbers, place] = [await vector(scope, 'layer-output'), await knob()];
  const { x, y } = (await ground.boundingBox())!;
  await page.mouse.move(x + 20, y + 20);
  await page.mouse.down();
  await page.mouse.move(x + 80, y + 40, { steps: 3 });
  await page.mouse.up();
  expect(await ground.getAttribute('aria-valuetext')).toBe('−40° around, 22° above');
  expect(await knob()).not.toBe(place);
  expect(await vector(scope, 'layer-output')).toEqual(numbers);
  await scope.getByRole('button', { name: 'From the side' }).click();
  expect(await ground.getAttribute('aria-valuetext')).toBe('−45° around, 0° above');
});

test('by keyboard: x along every direction, the view, g', async () => {
  const { page, scope } = await open('ge.turn=0&ge.tilt=0');
  const handle = scope.getByRole('slider', { name: 'x in RMSNorm' });
  await handle.focus();
  for (const key of ['ArrowRight', 'ArrowUp', 'PageUp', 'PageUp', 'ArrowLeft', 'ArrowRight']) {
    await page.keyboard.press(key);
  }
  expect(await vector(scope, 'layer-x')).toEqual([1.1, 0.6, -0.1]);
  expect(await handle.getAttribute('aria-valuetext')).toBe('1.1, 0.6, −0.1');
  for (let i = 0; i < 20; ++i) await page.keyboard.press('PageUp');
  expect((await vector(scope, 'layer-x'))[0]).toBe(3); // at the limit
  await scope.getByRole('slider', { name: 'View of RMSNorm', exact: true }).focus();
  await page.keyboard.press('ArrowLeft');
  await page.keyboard.press('ArrowDown');
  await expect.poll(() => page.url()).toMatch(/ge\.turn=5.*ge\.tilt=5/);
  const back = await backwardOf(page);
  await back.getByRole('slider', { name: 'g in LayerNorm' }).focus();
  await page.keyboard.press('ArrowUp');
  await expectGradient(scope);
});

test('a guess is answered and shown: LayerNorm sees no shift, neither norm sees the size', async () => {
  const { scope } = await open();
  const before = {
    layer: await vector(scope, 'layer-normalized'),
    rms: await vector(scope, 'rms-normalized'),
  };
  const [shift, double] = await scope.locator('.guess').all();
  expect(await shift.getByRole('button').count()).toBe(0);
  await shift.getByRole('radio', { name: 'It turns' }).check();
  await expect.poll(() => shift.locator('[aria-live]').innerText()).toMatch(/^Not quite\./);
  expectClose(await vector(scope, 'layer-x'), [1.9, 1.5, 0.8]);
  expectClose(await vector(scope, 'layer-normalized'), before.layer);
  const shifted = await vector(scope, 'rms-normalized');
  expect(Math.max(...shifted.map((v, i) => Math.abs(v - before.rms[i])))).toBeGreaterThan(0.1);
  await shift.getByRole('radio', { name: 'Nothing' }).check();
  await expect.poll(() => shift.locator('[aria-live]').innerText()).toMatch(/^Right\./);
  const words = await shift.locator('[aria-live]').innerText();
  expect(read(words.match(/LayerNorm’s x̂ changes by at most ([\d.e−]+)\./)![1])).toBeLessThan(
    1e-10,
  );

  await scope.getByRole('button', { name: 'Reset chapter' }).click();
  await double.getByRole('radio', { name: 'Nothing, in both norms' }).check();
  await expect.poll(() => double.locator('[aria-live]').innerText()).toMatch(/^Right\./);
  expectClose(await vector(scope, 'layer-x'), [1.8, 1, -0.4]);
  expectClose(await vector(scope, 'layer-normalized'), before.layer, 1e-4);
  expectClose(await vector(scope, 'rms-normalized'), before.rms, 1e-4);
  expect(await double.getByRole('button', { name: 'Times 2' }).isDisabled()).toBe(true);
  await double.getByRole('button', { name: 'Divided by 2' }).click();
  expectClose(await vector(scope, 'layer-x'), [0.9, 0.5, -0.2]);
});

test('near the line x̂ leaves the circle, by as much as ε says; on it, it is 0', async () => {
  const { scope } = await open();
  await scope.getByText('Near the dashed line').click();
  for (const kind of ['layer', 'rms']) {
    for (const [i, distance] of [1, 0.1, 0.01, 0.001, 1e-4, 0].entries()) {
      const variance = distance ** 2 / 3;
      const expected = Math.sqrt((3 * variance) / (variance + EPSILON));
      expect(await number(scope, `data-near=${kind}`, i)).toBeCloseTo(expected, 7);
    }
  }
  await scope.getByRole('button', { name: 'Move x to 0.002' }).click();
  const variance = 0.002 ** 2 / 3;
  expect(await number(scope, 'data-forward=length', 0)).toBeCloseTo(
    Math.sqrt((3 * variance) / (variance + EPSILON)),
    7,
  );
  expect(await scope.locator('[data-words="near"]').innerText()).toContain('0.002 from the dashed');
  await expectSteps(scope, GAMMA, BETA, 1e-4); // the table has seven digits of x, and 1/σ is large
  await scope.getByRole('textbox', { name: 'x' }).fill('1, 1, 1');
  expect(await vector(scope, 'layer-normalized')).toEqual([0, 0, 0]);
  expect(await scope.locator('.drawing').first().innerHTML()).not.toMatch(/NaN|undefined/);
});

test('g along 1 or along x̂ is removed; along the circle it passes', async () => {
  const { page, scope } = await open();
  const back = await backwardOf(page);
  const size = (column: number) => number(back, 'data-backward=length', column);
  await back.getByRole('button', { name: 'g along 1' }).click();
  expect(await size(0)).toBeLessThan(1e-12);
  expect(await size(1)).toBeGreaterThan(0.1); // RMSNorm does not remove the part along 1
  await back.getByRole('button', { name: 'g along x̂' }).click();
  expect(await size(0)).toBeLessThan(1e-3);
  await back.getByRole('button', { name: 'g along the circle' }).click();
  const { deviation } = steps(await vector(scope, 'layer-x'), false, GAMMA, BETA);
  const g = await vector(back, 'layer-g');
  expect((await size(0)) * deviation).toBeCloseTo(Math.sqrt(dot(g, g)), 4);
  await expectGradient(scope);
});

test('each label is there once, and g never leaves the picture', async () => {
  for (const width of [360, 1280]) {
    const { page, scope } = await open('ge.g=3,3,3&ge.x=3,-3,3', { width });
    const back = await backwardOf(page);
    const inSpace = back.locator('figure', { hasText: ', backward' }).locator('.drawing');
    const figures = [...(await scope.locator('.drawing').all()), ...(await inSpace.all())];
    expect(figures).toHaveLength(4);
    for (const figure of figures) {
      const labels = await figure.locator('text').allTextContents();
      expect(new Set(labels).size, labels.join()).toBe(labels.length);
      const frame = (await figure.boundingBox())!;
      for (const grip of await figure.locator('.geo-grip').all()) {
        const { x, y, width, height } = (await grip.boundingBox())!;
        expect(x).toBeGreaterThanOrEqual(frame.x);
        expect(y).toBeGreaterThanOrEqual(frame.y);
        expect(x + width).toBeLessThanOrEqual(frame.x + frame.width);
        expect(y + height).toBeLessThanOrEqual(frame.y + frame.height);
      }
    }
  }
});

test('a hand-mangled link: a word, and the rest of it', async () => {
  const { page, scope } = await open('ge.x=1,9,1&ge.g=1,1&ge.turn=30');
  expect(await page.getByRole('alert').textContent()).toContain('ge.x has 9 as item 2');
  const back = await backwardOf(page);
  expect(await back.getByText('g has 2 values; it must have 3').count()).toBe(1);
  await expectSteps(scope);
});

test.each(['light', 'dark'] as const)('no accessibility finding, %s', LONG, async (theme) => {
  const { page } = await open('ge.step=output&ge.shifted=a', { theme });
  await page.getByRole('button', { name: 'Show numbers' }).click();
  expect(await findings(page, `#${ID}`)).toEqual([]);
});

test('fits 360 px, with handles for a finger', LONG, async () => {
  const { page, scope } = await open('ge.step=output', { width: 360, touch: true });
  expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(360);
  const back = await backwardOf(page);
  for (const [part, name] of [
    [scope, 'x in LayerNorm'],
    [back, 'g in RMSNorm'],
  ] as const) {
    const { width, height } = (await part.getByRole('slider', { name }).boundingBox())!;
    expect(Math.min(width, height)).toBeGreaterThan(43.9); // up to rounding
  }
  const [x, g] = [await vector(scope, 'layer-x'), await vector(back, 'layer-g')];
  await dragByFinger(scope.getByRole('slider', { name: 'x in LayerNorm' }), 30, 30);
  expect(await vector(scope, 'layer-x')).not.toEqual(x);
  await dragByFinger(back.getByRole('slider', { name: 'g in LayerNorm' }), -30, -30);
  expect(await vector(back, 'layer-g')).not.toEqual(g);
});
