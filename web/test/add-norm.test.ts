// Add & Norm in the browser: the controls of document 004, the numbers, and the tour.

import type { Locator, Page } from 'playwright-core';
import { expect, test } from 'vitest';
import {
  LONG,
  chapter,
  dragByFinger,
  findings,
  openPage,
  type PageOptions,
  read,
  statistic,
  vector,
} from './page';

const X = [0.8, -0.4, 0.3, -0.7, 0.5];
const BRANCH = [0.2, 0.6, -0.5, -0.3, 0.9];

async function open(query = '', options: PageOptions = {}): Promise<[Page, Locator]> {
  const page = await openPage(`#add-norm${query && `?${query}`}`, options);
  return [page, chapter(page, 'add-norm')];
}

const inject = (scope: Locator) => scope.getByRole('button', { name: 'Inject Instability' });
const residual = (scope: Locator) => scope.getByLabel('Enable Residual Connection');
const slider = (scope: Locator, name: string) => scope.getByRole('slider', { name, exact: true });

async function measure(scope: Locator, name: string): Promise<number> {
  return read((await scope.locator(`[data-stat="${name}"]`).textContent())!);
}

function expectClose(found: number[], wanted: number[]) {
  expect(found).toHaveLength(wanted.length);
  wanted.forEach((v, i) => expect(found[i]).toBeCloseTo(v, 5));
}

/** Compares every table and statistic with the formula. */
async function expectFormula(
  scope: Locator,
  { gamma = 1, beta = 0, identity = X, branch = BRANCH },
) {
  const sum = identity.map((v, i) => v + branch[i]);
  const mean = sum.reduce((a, b) => a + b) / 5;
  const deviation = Math.sqrt(sum.reduce((t, v) => t + (v - mean) ** 2, 0) / 5 + 1e-8);
  const normalized = sum.map((v) => (v - mean) / deviation);
  for (const id of ['x', 'branch', 'sum', 'normalized', 'output']) {
    expect(await scope.locator(`[data-vector="${id}"]`).count(), id).toBe(1);
  }
  expectClose(await vector(scope, 'identity'), identity);
  expectClose(await vector(scope, 'branch'), branch);
  expectClose(await vector(scope, 'sum'), sum);
  expectClose(await vector(scope, 'normalized'), normalized);
  expectClose(
    await vector(scope, 'output'),
    normalized.map((v) => gamma * v + beta),
  );
  expect(await statistic(scope, 'mean')).toBeCloseTo(mean, 5);
  expect(await statistic(scope, 'deviation')).toBeCloseTo(deviation, 5);
}

/** The bars of stage A's three charts: their colours, and their lengths from zero. */
function barsOfStageA(scope: Locator): Promise<{ colour: string; reach: number[] }[]> {
  return scope
    .locator('.drawing')
    .first()
    .locator('g:has(> .zero)')
    .evaluateAll((charts) =>
      charts.map((chart) => {
        const zero = (chart.querySelector('.zero') as SVGGraphicsElement).getBBox().y;
        const bars = [...chart.querySelectorAll<SVGRectElement>('.bar')];
        return {
          colour: getComputedStyle(bars[0]).fill,
          reach: bars.map((bar) => {
            const { y, height } = bar.getBBox();
            return Math.abs(y - zero) < 0.01 ? -height : height;
          }),
        };
      }),
    );
}

test("shows the formula's numbers, at first and after each control", async () => {
  const [, scope] = await open();
  expectClose(await vector(scope, 'x'), X);
  await expectFormula(scope, {});

  await slider(scope, 'Gamma (γ)').fill('3');
  await slider(scope, 'Beta (β)').fill('-2');
  await expectFormula(scope, { gamma: 3, beta: -2 });

  await inject(scope).click();
  const branch = BRANCH.map((v) => 10 * v);
  await expectFormula(scope, { gamma: 3, beta: -2, branch });
  await scope.getByRole('button', { name: 'Reset Stability' }).waitFor();

  await residual(scope).uncheck();
  await expectFormula(scope, { gamma: 3, beta: -2, branch, identity: [0, 0, 0, 0, 0] });
  expectClose(await vector(scope, 'x'), X);
});

test('the sliders have the ranges of document 004', async () => {
  const [, scope] = await open();
  const range = (name: string) =>
    slider(scope, name).evaluate((input: HTMLInputElement) => [
      input.min,
      input.max,
      input.step,
      input.value,
    ]);
  expect(await range('Gamma (γ)')).toEqual(['0.1', '3', '0.1', '1']);
  expect(await range('Beta (β)')).toEqual(['-2', '2', '0.1', '0']);
});

test("draws with document 004's sizes", async () => {
  const [, scope] = await open('', { width: 1400 });
  const sizes = await scope
    .locator('.drawing')
    .evaluateAll((all) => all.slice(0, 4).map((svg) => [svg.clientWidth, svg.clientHeight]));
  expect(sizes).toEqual([
    [700, 350],
    [200, 250],
    [200, 250],
    [200, 250],
  ]);
});

test('bars are as long as their values, in one scale, and have their colours', async () => {
  const [, scope] = await open('', { theme: 'dark' });
  const UNIT = 22.5; // pixels
  const expectBars = (reach: number[], values: number[]) =>
    reach.forEach((r, i) => expect(r).toBeCloseTo(UNIT * Math.max(-2, Math.min(2, values[i])), 1));

  const [x, branch, sum] = await barsOfStageA(scope);
  expectBars(x.reach, X);
  expectBars(branch.reach, BRANCH);
  expectBars(
    sum.reach,
    X.map((v, i) => v + BRANCH[i]),
  );
  const [cyan, orange, gold] = ['rgb(0, 255, 255)', 'rgb(255, 136, 0)', 'rgb(255, 215, 0)'];
  expect([x.colour, branch.colour, sum.colour]).toEqual([cyan, orange, gold]);
  const steps = await scope
    .locator('.an-steps .drawing')
    .evaluateAll((all) => all.map((svg) => getComputedStyle(svg.querySelector('.bar')!).fill));
  expect(steps).toEqual([orange, cyan, 'rgb(76, 175, 80)']);

  await inject(scope).click();
  const [, scaled, unstable] = await barsOfStageA(scope);
  const [most, least] = [270 - 104, 270 - 374]; // where stage-a-layout.ts lets a burst end
  scaled.reach.forEach((r, i) => {
    expect(r).toBeCloseTo(Math.max(least, Math.min(most, UNIT * 10 * BRANCH[i])), 1);
  });
  expect(unstable.colour).toBe('rgb(255, 68, 68)');
  await residual(scope).uncheck();
  expect(await barsOfStageA(scope)).toHaveLength(2); // no bars of x
});

/** The parts of cause and effect that are outside the window or behind something else. */
function unseen(scope: Locator): Promise<string[]> {
  const parts = '.an-controls .button, .an-stage-a .bar, .an-stage-b .bar:not(.an-pale *)';
  return scope.locator(parts).evaluateAll((all) =>
    all
      .filter((part) => {
        const { left, right, top, bottom, width } = part.getBoundingClientRect();
        const isInside = left >= 0 && right <= innerWidth && top >= 0 && bottom <= innerHeight;
        const over = document.elementFromPoint(left + width / 2, (top + bottom) / 2)!;
        return !isInside || over.closest('.toolbar, .contents') !== null;
      })
      .map((part) => part.outerHTML),
  );
}

test.each([
  [1280, 800],
  [390, 844],
])(
  'stage A, stage B and the ×10 control are in sight together at %i × %i',
  async (width, height) => {
    const [page, scope] = await open('', { width, height, touch: width < 500 });
    await page.keyboard.press('Shift'); // or the link would scroll to the chapter's head once more
    await scope.locator('#an-stage-a').evaluate((heading) => heading.scrollIntoView());
    const scrolled = await page.evaluate(() => scrollY);
    await expect.poll(() => unseen(scope)).toEqual([]);
    await scope.getByRole('button', { name: 'Inject Instability' }).click();
    await scope.getByRole('button', { name: 'Reset Stability' }).waitFor();
    expect(await unseen(scope)).toEqual([]);
    expect(await page.evaluate(() => scrollY)).toBe(scrolled);
    const covering = await scope.locator('.an-controls').boundingBox();
    for (const bar of await scope.locator('.an-stage-b .bar:not(.an-pale *)').all()) {
      const { y, height } = (await bar.boundingBox())!;
      if (width < 500) expect(y + height).toBeLessThanOrEqual(covering!.y);
    }
  },
);

test('at ten times, bars burst out of their frame, and the old x̂ stays as a ghost', async () => {
  const [, scope] = await open();
  const before = await vector(scope, 'normalized');
  const chart = scope.locator('#an-b2 .drawing');
  const heights = (bars: string) =>
    chart.locator(bars).evaluateAll((all) => all.map((bar) => bar.getAttribute('height')));
  const stable = await heights('.bar');
  await inject(scope).click();
  expect(await vector(scope, 'normalized')).not.toEqual(before);
  expect(await heights('.bar.ghost')).toEqual(stable);
  expect(await chart.locator('.an-pale .bar').count()).toBe(5); // s − μ
  const [, , sum] = await barsOfStageA(scope);
  const frame = 132 / 2; // from zero to the edge of the chart
  expect(sum.reach.filter((reach) => Math.abs(reach) > frame)).toHaveLength(4);
});

test('with motion, s is first shifted by μ, then divided by σ', async () => {
  const [, scope] = await open('', { reducedMotion: false });
  const chart = scope.locator('#an-b2 .drawing');
  await inject(scope).click();
  await chart.getByText('s', { exact: true }).waitFor();
  await chart.getByText('s − μ').waitFor();
  await chart.getByText('s − μ').waitFor({ state: 'detached' });
  expect(await chart.locator('.bar.ghost').count()).toBe(5);
});

test('in a presentation, stage A, stage B and the controls are one slide', async () => {
  const page = await openPage('?present=2#add-norm', { level: 0, width: 1280, height: 800 });
  const scope = chapter(page, 'add-norm');
  await scope.locator('.an-stages[data-on-stage]').waitFor();
  for (const part of ['.an-controls .button', '.an-stage-a .drawing', '#an-b1 .drawing']) {
    expect(await scope.locator(part).first().isVisible(), part).toBe(true);
  }
  expect(await scope.locator('.an-verdict').isVisible()).toBe(false);
});

test('γ = σ and β = μ undo the norm, until a slider is moved', async () => {
  const [page, scope] = await open('an.unstable=1');
  const undo = scope.getByRole('button', { name: 'Set γ = σ, β = μ' });
  await undo.click();
  expectClose(await vector(scope, 'output'), await vector(scope, 'sum'));
  await page.waitForURL(/an\.undone=1/);
  await slider(scope, 'Beta (β)').press('Home');
  expect(await undo.getAttribute('aria-pressed')).toBe('false');
  const normalized = await vector(scope, 'normalized');
  expectClose(
    await vector(scope, 'output'),
    normalized.map((v) => v - 2),
  );
});

test('tells what becomes of x̂ after F × 10, with and without the residual', async () => {
  const [, scope] = await open('an.unstable=1');
  const sentence = scope.locator('.an-verdict');
  expect(await measure(scope, 'with-stable')).toBeLessThan(0.9);
  expect(await measure(scope, 'with-branch')).toBeGreaterThan(0.99);
  const growth = await measure(scope, 'deviation-ratio');
  expect(growth).toBeGreaterThan(6);
  expect(await measure(scope, 'gradient-ratio')).toBeCloseTo(1 / growth, 3);
  expect(await sentence.textContent()).toContain('differs from the stable x̂');

  await residual(scope).uncheck();
  expect(await measure(scope, 'with-stable')).toBe(1);
  expect(await measure(scope, 'deviation-ratio')).toBeCloseTo(10, 3);
  expect(await measure(scope, 'gradient-ratio')).toBeCloseTo(0.1, 4);
  expect(await sentence.textContent()).toContain('x̂ has not changed');
});

test('a guess is answered by injecting, and the answer depends on the residual', async () => {
  const [, scope] = await open();
  const guess = scope.locator('.guess');
  const reply = () => guess.locator('[aria-live]').innerText();
  await guess.getByRole('radio', { name: 'It stays the same' }).check();
  expect(await reply()).toMatch(/^Not quite\..* turns towards LayerNorm\(F\)/);
  await scope.getByRole('button', { name: 'Reset Stability' }).waitFor();
  await guess.getByRole('radio', { name: 'It keeps its size' }).check();
  expect(await reply()).toMatch(/^Right\./);
  await residual(scope).uncheck();
  expect(await reply()).toMatch(/^Not quite\..* removes the scale of its input/);
});

test('three arrangements: without a residual x and x′ come out alike', async () => {
  const [page, scope] = await open();
  const expectArrangements = async (x: number[]) => {
    expectClose(await vector(scope, 'token'), x);
    expectClose(await vector(scope, 'plain-leaves'), await vector(scope, 'post-gives'));
    expectClose(await vector(scope, 'plain-leaves'), await vector(scope, 'plain-leaves-2'));
    const sum = x.map((v, i) => v + plain[i]);
    const mean = sum.reduce((a, b) => a + b) / 5;
    const deviation = Math.sqrt(sum.reduce((t, v) => t + (v - mean) ** 2, 0) / 5 + 1e-8);
    const post = await vector(scope, 'post-leaves');
    sum.forEach((v, i) => expect(post[i]).toBeCloseTo((v - mean) / deviation, 4));
    const gives = await vector(scope, 'pre-gives');
    expectClose(
      await vector(scope, 'pre-leaves'),
      x.map((v, i) => v + gives[i]),
    );
  };
  let plain = await vector(scope, 'plain-leaves');
  await expectArrangements(X);
  const apart = async (column: number) =>
    Number(
      await scope.locator('[data-arrangement="apart"] data').nth(column).getAttribute('value'),
    );
  expect(await apart(0)).toBe(0);
  expect(await apart(1)).toBeGreaterThan(0.5);
  expect(await apart(2)).toBeGreaterThan(0.5);

  await slider(scope, 'the token’s x 5').focus(); // F does not read it
  await page.keyboard.press('Home');
  expect(await vector(scope, 'plain-leaves')).toEqual(plain);
  await slider(scope, 'the token’s x 1').focus();
  await page.keyboard.press('Home');
  const changed = await vector(scope, 'plain-leaves');
  expect(changed).not.toEqual(plain);
  plain = changed;
  await expectArrangements([-1, -0.4, 0.3, -0.7, -1]);
});

test.each(['?present#add-norm?an.tour=3', '?embed=add-norm#add-norm?an.tour=3'])(
  'no tour where it has no place: %s',
  async (link) => {
    const page = await openPage(link, { level: 0 });
    const scope = chapter(page, 'add-norm');
    await scope.locator('.an-transformer').waitFor();
    expect(await scope.getByRole('button', { name: 'Start tour' }).count()).toBe(0);
    expect(await page.getByRole('dialog').count()).toBe(0);
    expect(await scope.locator('.an-lit').count()).toBe(0);
  },
);

test('a link keeps the state, and reset and undo give the old one back', async () => {
  const [page, scope] = await open();
  await slider(scope, 'Gamma (γ)').fill('1.7');
  await inject(scope).click();
  await page.getByRole('slider', { name: 'x 1', exact: true }).press('Home');
  const kept = /an\.x=-1,-0\.4,0\.3,-0\.7,0\.5&an\.unstable=1&an\.gamma=1\.7/;
  await page.waitForURL(kept);
  const output = await vector(scope, 'output');

  const [, again] = await open(page.url().split('?')[1]);
  expect(await vector(again, 'output')).toEqual(output);
  expect(await slider(again, 'Gamma (γ)').inputValue()).toBe('1.7');
  await again.getByRole('button', { name: 'Reset chapter' }).click();
  await expectFormula(again, {});
  await again.page().getByRole('button', { name: 'Undo' }).click();
  expect(await vector(again, 'output')).toEqual(output);
});

test('draws new values from −1 to 1', async () => {
  const [page, scope] = await open();
  await scope.getByRole('button', { name: 'Draw new values' }).click();
  const [x, branch] = [await vector(scope, 'x'), await vector(scope, 'branch')];
  expect(x).not.toEqual(X);
  for (const v of [...x, ...branch]) expect(Math.abs(v)).toBeLessThanOrEqual(1);
  await expectFormula(scope, { identity: x, branch });
  await page.getByRole('button', { name: 'Undo' }).click();
  await expectFormula(scope, {});
});

test('bars of x and F(x) follow the pointer, F(x) also at ten times', async () => {
  const [page, scope] = await open();
  const dragTo = async (name: string, part: number) => {
    const handle = slider(scope, name);
    await handle.scrollIntoViewIfNeeded();
    const box = (await handle.locator('rect').first().boundingBox())!; // the bar's column
    const x = box.x + box.width / 2;
    await page.mouse.move(x, box.y + box.height / 2);
    await page.mouse.down();
    await page.mouse.move(x, box.y + part * box.height, { steps: 3 });
    await page.mouse.up();
  };
  await dragTo('x 2', 0.1); // near the top
  expect((await vector(scope, 'x'))[1]).toBeGreaterThan(0.9);
  await dragTo('F(x) 1', 0.5);
  expect((await vector(scope, 'branch'))[0]).toBe(0);
  await inject(scope).click();
  await dragTo('F(x) 3', 0.3); // the bar ends at the pointer, where 10·F(x) is about 1
  expect((await vector(scope, 'branch'))[2]).toBe(1);
});

test('the keyboard reaches and moves everything', async () => {
  const [page, scope] = await open();
  await scope.getByRole('button', { name: 'Start tour' }).focus();
  const reached: string[] = [];
  while (reached.length < 33) {
    await page.keyboard.press('Tab');
    const name = await page.evaluate(() => {
      const e = document.activeElement as HTMLInputElement;
      if (e.matches('.term-word')) return undefined; // a definition
      return e.ariaLabel ?? e.labels?.[0]?.textContent ?? e.textContent ?? '';
    });
    if (name !== undefined) reached.push(name);
  }
  const bars = ['x', 'F(x)'].flatMap((name) => [1, 2, 3, 4, 5].map((i) => `${name} ${i}`));
  expect(reached).toEqual([
    'Inject Instability',
    'Draw new values',
    'Enable Residual Connection',
    ...bars,
    'Save “Stage A: the addition”',
    'Save “B1”',
    'Save “B2”',
    'Save “B3”',
    'Gamma (γ)',
    'Beta (β)',
    'Set γ = σ, β = μ',
    'Type the values',
    'It stays the same',
    'Save “x̂, feature by feature”',
    'Save “x̂ as a direction”',
    ...[1, 2, 3, 4, 5].map((i) => `the token’s x ${i}`),
    'Save “Three arrangements of one sublayer”',
    'Result. x and x′ are 1.41 apart',
    'Where the norm goes',
    'Why add, and why norm',
  ]);
  await slider(scope, 'x 3').press('ArrowUp');
  expect((await vector(scope, 'x'))[2]).toBeCloseTo(0.35);
  await slider(scope, 'Gamma (γ)').press('ArrowRight');
  expect(await slider(scope, 'Gamma (γ)').inputValue()).toBe('1.1');
  await residual(scope).press('Space');
  expectClose(await vector(scope, 'identity'), [0, 0, 0, 0, 0]);
});

test('the tour starts, goes on and back, shows what it speaks of, and can be left', async () => {
  const [page, scope] = await open();
  const tour = page.getByRole('dialog', { name: 'Guided tour' });
  const next = tour.getByRole('button', { name: 'Next' });
  await scope.getByRole('button', { name: 'Start tour' }).press('Enter');
  const isFocused = () => tour.evaluate((e) => e === document.activeElement);
  await expect.poll(isFocused).toBe(true);
  for (let step = 1; step <= 13; ++step) {
    expect(await tour.textContent()).toContain(`${step} of 13`);
    expect(await scope.locator('.an-lit').count()).toBe(1);
    await expect.poll(() => isInSight(scope.locator('.an-lit'))).toBe(true);
    const injected = step >= 9 && step <= 12;
    expect(await inject(scope).count(), `step ${step}`).toBe(injected ? 0 : 1);
    expect(await residual(scope).isChecked()).toBe(step !== 12);
    if (step < 13) await next.press('Enter');
  }
  await expect.poll(isFocused).toBe(true); // there is no Next
  expect(await next.count()).toBe(0);
  await tour.getByRole('button', { name: 'Back' }).press('Enter');
  expect(await residual(scope).isChecked()).toBe(false);
  await page.keyboard.press('Escape');
  await tour.waitFor({ state: 'detached' });
  expect(await scope.locator('.an-lit').count()).toBe(0);
});

test('the tour keeps its part in sight when the window changes, and ends where it began', async () => {
  const [page, scope] = await open('an.tour=7');
  const part = scope.locator('#an-b2.an-lit');
  await expect.poll(() => isInSight(part)).toBe(true);
  for (const width of [390, 1280]) {
    await page.setViewportSize({ width, height: 900 });
    await expect.poll(() => isInSight(part), { message: `${width} px` }).toBe(true);
  }
  const tour = page.getByRole('dialog', { name: 'Guided tour' });
  for (let step = 7; step < 13; ++step) await tour.getByRole('button', { name: 'Next' }).click();
  await tour.getByRole('button', { name: 'Done' }).press('Enter');
  await tour.waitFor({ state: 'detached' });
  const start = scope.getByRole('button', { name: 'Start tour' });
  expect(await start.evaluate((button) => button === document.activeElement)).toBe(true);
  await expect.poll(() => start.boundingBox().then((box) => box!.y >= 0)).toBe(true);
});

async function isInSight(part: Locator): Promise<boolean> {
  const box = (await part.boundingBox())!;
  return box.y >= 0 && box.y < part.page().viewportSize()!.height / 2;
}

test.each([
  [10, 'Leave'],
  [12, 'Escape'],
  [13, 'Done'],
])(
  'the tour, left at step %i by %s, gives the state back and is nothing to undo',
  async (at, by) => {
    const [page, scope] = await open('an.unstable=1&an.residual=0');
    await scope.getByRole('button', { name: 'Start tour' }).click();
    const tour = page.getByRole('dialog', { name: 'Guided tour' });
    for (let step = 1; step < at; ++step) await tour.getByRole('button', { name: 'Next' }).click();
    if (by === 'Escape') await page.keyboard.press(by);
    else await tour.getByRole('button', { name: by }).click();
    await tour.waitFor({ state: 'detached' });
    expect(await inject(scope).count()).toBe(0);
    expect(await residual(scope).isChecked()).toBe(false);
    expect(await page.getByRole('button', { name: 'Undo' }).isDisabled()).toBe(true);
  },
);

test('the tour speaks of values of its own, and gives back the reader’s', async () => {
  const [page, scope] = await open('an.x=0,0,0,0,0&an.branch=0,0,0,0,0&an.gamma=3&an.beta=2');
  await scope.getByRole('button', { name: 'Start tour' }).click();
  const tour = page.getByRole('dialog', { name: 'Guided tour' });
  for (let step = 1; step < 8; ++step) await tour.getByRole('button', { name: 'Next' }).click();
  await expectFormula(scope, {}); // σ is not 0, γ is 1
  await tour.getByRole('button', { name: 'Leave' }).click();
  expectClose(await vector(scope, 'x'), [0, 0, 0, 0, 0]);
  expect(await slider(scope, 'Gamma (γ)').inputValue()).toBe('3');
});

test('what is changed at the last step of the tour stays', async () => {
  const [page, scope] = await open('an.tour=12&an.unstable=1&an.residual=0');
  const tour = page.getByRole('dialog', { name: 'Guided tour' });
  await tour.getByRole('button', { name: 'Next' }).click();
  expect(await residual(scope).isChecked()).toBe(true); // the link's state was the tour's
  await inject(scope).click();
  await tour.getByRole('button', { name: 'Done' }).click();
  expect(await inject(scope).count()).toBe(0);
});

test('leaving the tour puts the keyboard where it was', async () => {
  const [page] = await open('an.tour=8');
  await page.getByRole('dialog', { name: 'Guided tour' }).waitFor();
  await page.keyboard.press('Escape');
  await page.keyboard.press('Tab'); // into the step that was shown
  expect(await page.evaluate(() => document.activeElement!.closest('#an-b3') !== null)).toBe(true);
});

test('typed and mangled values get a word, and the page stays', async () => {
  const [page, scope] = await open('an.gamma=9&an.x=1,2&an.tour=99');
  expect(await page.getByRole('alert').textContent()).toContain('an.gamma is 9');
  await expectFormula(scope, {});
  await scope.getByText('Type the values').click();
  const field = scope.getByRole('textbox', { name: 'x', exact: true });
  for (const bad of [
    '',
    'one two',
    '1',
    '0 0 0 0 NaN',
    '1e300 0 0 0 0',
    Array(10_000).fill(1).join(),
  ]) {
    await field.fill(bad);
    expect(await scope.locator('details .problem').first().textContent()).toMatch(
      /^x (is|has) .*(must|not)/,
    );
    await expectFormula(scope, {});
  }
  await field.fill('[1, 0.5, 0, -0.5, -1]');
  expect(await scope.locator('details .problem').first().textContent()).toBe('');
  await expectFormula(scope, { identity: [1, 0.5, 0, -0.5, -1] });
});

test('fits a page of 360 pixels, in every state', LONG, async () => {
  const [page, scope] = await open('an.unstable=1&an.tour=11', {
    width: 360,
    height: 740,
    touch: true,
  });
  const width = () => page.evaluate(() => document.documentElement.scrollWidth);
  expect(await width()).toBeLessThanOrEqual(360);
  for (const box of await scope.locator('.bar-handle').all()) {
    const { width, height } = (await box.boundingBox())!;
    expect(Math.min(width, height)).toBeGreaterThanOrEqual(24);
  }
  await page.getByRole('button', { name: 'Show numbers' }).click();
  for (const summary of await scope.locator('summary').all()) await summary.click();
  expect(await width()).toBeLessThanOrEqual(360);
});

test('a finger drags bars at once, and presses boxes', async () => {
  const [page, scope] = await open('', { width: 360, height: 740, touch: true });
  for (const [i, name] of ['x 1', 'the token’s x 2'].entries()) {
    const before = (await vector(scope, 'x'))[i];
    await dragByFinger(slider(scope, name).locator('.knob'), 0, 12);
    expect((await vector(scope, 'x'))[i]).toBeLessThan(before);
  }
  const boxes = scope.getByRole('button', { name: /^Add & Norm after/ });
  for (const box of await boxes.all()) {
    expect((await box.boundingBox())!.height).toBeGreaterThanOrEqual(44);
  }
  await page.evaluate(() => scrollTo(0, 0));
  await boxes.first().tap();
  await expect.poll(() => isInSight(scope.locator('#an-stage-a'))).toBe(true);
});

test.each(['light', 'dark'] as const)('axe finds nothing: %s', LONG, async (theme) => {
  const [page, scope] = await open('an.unstable=1&an.tour=2', { theme });
  for (const summary of await scope.locator('summary').all()) await summary.click();
  expect(await findings(page, '#add-norm')).toEqual([]);
});
