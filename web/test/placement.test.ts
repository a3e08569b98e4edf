// The chapter “Where the norm goes”: the five slots, measured and trained in workers.

import type { Locator, Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { LONG, chapter, findings, openPage, read } from './page';

async function open(query = '', options = {}): Promise<[Page, Locator]> {
  const page = await openPage(`#placement${query && `?${query}`}`, options);
  return [page, chapter(page, 'placement')];
}

const openDrawer = (part: Locator) =>
  part.getByText('Layers, initial weights, steps and text').click();

const nameOf = (part: Locator) => part.locator('[data-name]').textContent();
const tex = (part: Locator) =>
  part.locator('.placement-named div.formula annotation').textContent();

async function row(part: Locator, curve: string): Promise<number[]> {
  const found = part.locator(`tr[data-curve="${curve}"]`).first();
  const cells = await found.locator('td').allTextContents();
  return cells.filter((cell) => cell !== '').map(read);
}

const openAll = (part: Locator) => part.getByText('All placements, factors').click();

test('each named placement is in the list, main ones have a button: all else follows', async () => {
  const [page, part] = await open();
  const names = part.getByRole('group', { name: 'Named placements' }).getByRole('button');
  expect(await names.allTextContents()).toEqual(['none', 'post', 'pre', 'sandwich']);
  expect(await nameOf(part)).toBe('post');
  await openAll(part);
  const list = part.getByRole('combobox', { name: 'Placement' }).first();
  const all = await list.locator('option').allTextContents();
  expect(all).toHaveLength(14);
  const equations = new Map<string, string>();
  for (const name of all) {
    await list.selectOption(name);
    expect(await nameOf(part)).toBe(name);
    const equation = (await tex(part))!;
    equations.set(name, equation.replaceAll(/\\operatorname|\\!|\\left|\\right|[{}]/g, ''));
  }
  expect(equations.get('pre')).toBe('y = x + F(LN(x))');
  expect(equations.get('post')).toBe('y = LN(x + F(x))');
  expect(equations.get('plain')).toBe('y = F(x)');
  expect(equations.get('sandwich')).toBe('y = x + LN(F(LN(x)))');
  expect(new Set(equations.values()).size).toBe(14);
  await names.filter({ hasText: /^pre$/ }).click();
  const diagram = part.locator('.placement-diagram');
  expect(await diagram.getAttribute('aria-label')).toContain('a norm before F, and a final norm');
  await page.waitForTimeout(500); // starts a new gesture
  await diagram.locator('.slot', { hasText: 'after' }).click();
  expect(await part.getByRole('checkbox', { name: 'after the sum' }).isChecked()).toBe(true);
  expect(await nameOf(part)).toBe('your own');
  await page.getByRole('button', { name: 'Undo' }).click();
  expect(await nameOf(part)).toBe('pre');
});

test('the switchboard by keyboard; the link reopens it', async () => {
  const [page, part] = await open();
  await part.locator('summary', { hasText: 'All placements, factors' }).focus();
  await page.keyboard.press('Enter');
  await part.getByRole('checkbox', { name: 'after the sum' }).focus();
  await page.keyboard.press('Space');
  expect(await nameOf(part)).toBe('none');
  await page.keyboard.press('Tab'); // final
  await page.keyboard.press('Tab'); // the kind of norm
  await page.keyboard.press('Tab'); // skip
  await page.keyboard.press('ArrowRight');
  expect(await nameOf(part)).toBe('plain');
  await page.keyboard.press('Tab'); // gain
  await page.keyboard.press('ArrowRight');
  expect(await nameOf(part)).toBe('your own');
  await expect.poll(() => page.url()).toMatch(/pl\.after=0&pl\.skip=plain&pl\.gain=scaled-branch/);
  const [, again] = await open(new URL(page.url()).hash.split('?')[1]);
  expect(await nameOf(again)).toBe('your own');
  expect(await tex(again)).toBe(await tex(part));
});

test('stream and gradient are measured beside post and pre', async () => {
  const [, part] = await open('pl.layers=6');
  await part.getByRole('button', { name: 'none', exact: true }).click();
  await part.locator('[data-verdict="measured"]', { hasText: 'none (this one).' }).waitFor();
  for (const name of ['none (this one)', 'post', 'pre']) {
    expect(await row(part, name)).toHaveLength(7);
  }
  const post = await row(part, 'post');
  for (const rms of post.slice(1)) expect(rms).toBeCloseTo(1, 3); // every sum is normalized
  await openAll(part);
  await part.getByRole('combobox', { name: 'Placement' }).first().selectOption('reordered');
  await part.locator('[data-verdict="measured"]', { hasText: 'reordered (this one).' }).waitFor();
  const stream = await row(part, 'reordered (this one)');
  // E‖x‖²/d grows by 1 with each of the two normalized branches of a layer.
  const grown = (stream[6] ** 2 - stream[0] ** 2) / 12;
  expect(grown).toBeGreaterThan(0.6);
  expect(grown).toBeLessThan(1.6);
});

test('trains two runs to their end, and says what they show', async () => {
  const [, part] = await open('pl.steps=6&pl.warmup=3&pl.layers=2&pl.curves=each');
  await part.getByRole('button', { name: 'Start training' }).click();
  const verdict = part.locator('[data-verdict="trained"]');
  await verdict.waitFor();
  const without = await row(part, 'without warm-up');
  const warmed = await row(part, 'warm-up over 3 steps');
  expect([without.length, warmed.length]).toEqual([6, 6]);
  expect(without[0]).toBe(warmed[0]);
  expect(without[0]).toBeGreaterThan(4.5); // about ln 256 = 5.5
  expect(without[5]).not.toBe(warmed[5]);
  const unigram = (await row(part, 'byte frequencies alone'))[0];
  expect(unigram).toBeGreaterThan(3);
  expect(unigram).toBeLessThan(4);
  const rest = `byte frequencies alone give ${unigram.toFixed(2)}`;
  expect(await verdict.textContent()).toContain(rest);
  const health = part.locator('figure', { hasText: 'Layer 0’s gradient over' });
  const steps = (await health.locator('thead th').allTextContents()).slice(1).map(Number);
  expect(steps).toEqual([0, 1, 2, 3, 5, 6]);
  expect(await health.locator('tr[data-curve="without warm-up"] td').count()).toBe(6);
  const trained = await part.locator('tr[data-trained="post"] td').allTextContents();
  expect(trained.slice(0, 5)).toEqual(['2', 'PyTorch’s', '0.005', '6', '0']);
  await part.getByRole('button', { name: 'Reset training' }).click();
  expect(await part.locator('tr[data-curve="without warm-up"]').count()).toBe(0);
  expect(await part.locator('tr[data-trained]').count()).toBe(1);
});

test('stops, goes on, and a reset ends it', async () => {
  const [, part] = await open('pl.steps=1000');
  await part.getByRole('button', { name: 'Start training' }).click();
  const progress = part.locator('.placement-progress');
  const step = async () => Number(/step (\d+) of 1000/.exec((await progress.textContent())!)![1]);
  await expect.poll(step, { timeout: 10_000 }).toBeGreaterThan(0);
  await part.getByRole('button', { name: 'Stop' }).click();
  let stopped = await step();
  const rests = async () => stopped === (stopped = await step()); // no step in progress
  await expect.poll(rests, { interval: 500, timeout: 10_000 }).toBe(true);
  await part.getByRole('button', { name: 'Go on' }).click();
  await expect.poll(step, { timeout: 10_000 }).toBeGreaterThan(stopped);
  await part.getByRole('button', { name: 'Reset training' }).click();
  expect(await progress.count()).toBe(0);
  await part.getByRole('button', { name: 'Start training' }).waitFor();
});

test('Reset chapter and Reset all end the training and clear what it left', async () => {
  const [page, part] = await open('pl.steps=3&pl.layers=1&pl.curves=each');
  const start = part.getByRole('button', { name: 'Start training' });
  await start.click();
  await part.locator('tr[data-trained]').waitFor();
  const first = await row(part, 'without warm-up');
  await part.getByRole('button', { name: 'pre', exact: true }).click();
  await start.click();
  await part.getByText('Loss of pre').first().waitFor();
  expect(await row(part, 'post, without warm-up (before)')).toEqual(first);
  for (const name of ['Reset chapter', 'Reset all']) {
    const whole = name === 'Reset all' ? page : part;
    await whole.getByRole('button', { name, exact: true }).click();
    expect(await part.locator('.placement-progress').count()).toBe(0);
    expect(await part.locator('tr[data-trained]').count()).toBe(0);
    await start.click(); // 250 steps
    await part.locator('.placement-progress').waitFor();
    expect(await part.getByText('(before)').count()).toBe(0);
  }
});

test('a text of one’s own: too short, long enough, too long for the link', async () => {
  const [page, part] = await open('pl.steps=2&pl.layers=1&pl.warmup=1');
  await openDrawer(part);
  await part.getByRole('radio', { name: 'my own' }).check();
  const box = part.getByRole('textbox', { name: 'Your text' });
  await box.fill('too short');
  await part.getByText('the text has 9 bytes, a context of 32 needs at least 330').waitFor();
  await part.getByRole('button', { name: 'Start training' }).click();
  expect(await part.locator('[data-verdict="trained"]').count()).toBe(0);
  await box.fill('To be, or not to be. '.repeat(120)); // 2520 characters
  await expect.poll(() => part.getByText('the text has').count()).toBe(0);
  await part.getByRole('button', { name: 'Start training' }).click();
  await part.locator('[data-verdict="trained"]').waitFor();
  await expect.poll(() => page.url()).toContain('pl.text=long');
  expect(page.url().length).toBeLessThan(400);
  await box.fill('x'.repeat(50_001));
  await part.getByText('Your text has 50,001 characters; at most 50,000 are allowed.').waitFor();
  expect(await part.getByRole('button', { name: 'Start training' }).isDisabled()).toBe(true);
  const [other] = await open(new URL(page.url()).hash.split('?')[1]);
  expect(await other.getByRole('alert').first().textContent()).toContain('too long for the link');
});

test('the longest equation fits the narrowest page', async () => {
  const worst =
    'pl.before=1&pl.inside=1&pl.skip=admin&pl.gain=scaled-branch&pl.scale=depth-scaled&pl.norm=rms';
  const [, part] = await open(worst, { width: 360 });
  const room = await part
    .locator('.placement-named div.formula')
    .evaluate((e) => e.clientWidth - e.scrollWidth);
  expect(room).toBeGreaterThanOrEqual(0);
});

test('numbers that cannot be are refused beside their fields', async () => {
  const [, part] = await open();
  await openDrawer(part);
  await part.getByRole('textbox', { name: 'Steps', exact: true }).fill('1e9');
  await part.getByText('Steps is 1e9; it must be a whole number from 2 to 1000.').waitFor();
  const start = part.getByRole('button', { name: 'Start training' });
  expect(await start.isDisabled()).toBe(true);
  await part.getByText('A field above has an invalid value').waitFor();
  await part.getByRole('textbox', { name: 'Steps', exact: true }).fill('250');
  expect(await start.isEnabled()).toBe(true);
  await part.getByRole('textbox', { name: 'Warm-up steps' }).fill('300');
  await part.getByText('The warm-up is longer than the training').waitFor();
});

test('narrow, light and dark: nothing sticks out, axe finds nothing', LONG, async () => {
  const options = { width: 360, touch: true };
  const [page, part] = await open('pl.steps=4&pl.layers=2&pl.source=pasted', options);
  await openDrawer(part);
  await part.getByRole('radio', { name: 'Genesis, in the King James Version' }).check();
  await part.getByRole('button', { name: 'admin', exact: true }).click();
  await part.getByRole('button', { name: 'Start training' }).click();
  await part.locator('[data-verdict="trained"]').waitFor();
  const width = await page.evaluate(() => document.documentElement.scrollWidth);
  expect(width).toBeLessThanOrEqual(360);
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme });
    expect(await findings(page, '#placement')).toEqual([]);
  }
});

test('how far each layer turns the stream, in numbers and in words', async () => {
  const [, part] = await open('pl.layers=5&pl.first=xavier');
  const figure = part.locator('figure', { hasText: 'How far each layer turns' });
  const angles = async (name: string) => {
    const cells = await figure.locator(`tr[data-curve="${name}"] td`).allTextContents();
    return cells.map(read);
  };
  await expect.poll(() => angles('pre'), { timeout: 60_000 }).toHaveLength(5);
  const [pre, post] = [await angles('pre'), await angles('post (this one)')];
  for (const angle of [...pre, ...post]) expect(angle > 0 && angle < 180).toBe(true);
  const words = await part.locator('[data-verdict="turns"]').textContent();
  expect(words).toContain(`by ${Number(pre[4].toPrecision(3))}° in the last`);
  await part.getByRole('radio', { name: 'PyTorch’s' }).last().check();
  await expect.poll(async () => (await angles('pre'))[0], { timeout: 60_000 }).not.toBe(pre[0]);
});

test('a placement has one colour, whichever is chosen', async () => {
  const [, part] = await open('pl.layers=3');
  const chart = part.locator('figure', { hasText: 'Stream RMS' });
  const colour = (name: string) => chart.locator('text', { hasText: name }).getAttribute('fill');
  await chart.locator('tr[data-curve="pre"]').waitFor({ state: 'attached' });
  const [pre, post] = [await colour('pre'), await colour('post')];
  expect(pre).not.toBe(post);
  await part.getByRole('combobox', { name: 'Placement' }).first().selectOption('pre');
  await chart.locator('tr[data-curve="pre (this one)"]').waitFor({ state: 'attached' });
  expect([await colour('pre'), await colour('post')]).toEqual([pre, post]);
});

test('guesses: how deep a gradient gets, and how post-norm trains', async () => {
  const [, part] = await open('pl.steps=3&pl.layers=1');
  const deep = part.getByRole('group', { name: 'Post-norm and pre-norm, 12 layers each' });
  await deep.getByRole('radio', { name: 'in pre-norm alone' }).check();
  await part.getByText('Not quite. It arrives in both. With PyTorch’s initial weights').waitFor();
  await deep.getByRole('radio', { name: 'in both' }).check();
  await part.getByText('Right. It arrives in both.').waitFor();
  const cold = part.getByRole('group', { name: 'Post-norm, at the full learning rate' });
  await cold.getByRole('radio', { name: 'It stalls' }).check();
  await part.getByText('Now start the training').waitFor();
  await part.getByRole('button', { name: 'Start training' }).click();
  await part.getByText('Right. The stack does not train in 3 steps').waitFor();
});

test('a stack is broken and repaired by one press', async () => {
  const [, part] = await open();
  await part.getByRole('button', { name: 'Break it' }).click();
  const verdict = part.locator('[data-verdict="measured"]');
  await expect
    .poll(() => verdict.textContent(), { timeout: 20_000 })
    .toMatch(/none \(this one\)\..*explodes/);
  await part.getByRole('button', { name: 'Repair it: pre-norm' }).click();
  await expect
    .poll(() => verdict.textContent(), { timeout: 20_000 })
    .toMatch(/pre \(this one\)\..*it arrives/);
});
