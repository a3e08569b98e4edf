// The chapter “Quiz”.

import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { LONG, chapter, findings, openPage } from './page';

const RIGHT = { q1: 'b', q2: 'd', q3: 'a', q4: 'c', q5: 'b', q6: 'd', q7: 'b' };
const ALL_RIGHT = Object.entries(RIGHT)
  .map(([id, letter]) => `qz.${id}=${letter}`)
  .join('&');

function question(page: Page, id: string) {
  const fieldset = chapter(page, 'quiz').locator(`[data-question=${id}]`);
  return {
    reply: fieldset.locator('[aria-live]'),
    radio: (letter: string) => fieldset.locator(`input[value=${letter}]`),
    radios: fieldset.getByRole('radio'),
    link: fieldset.getByRole('link'),
  };
}

/** Goes on to a question. */
async function goTo(page: Page, id: string) {
  const fieldset = chapter(page, 'quiz').locator(`[data-question=${id}]`);
  const next = chapter(page, 'quiz').getByRole('button', { name: 'Next' });
  while (!(await fieldset.isVisible())) await next.click();
}

test('shows one question at a time, on paper and in an embedded chapter all', async () => {
  const page = await openPage('#quiz');
  const visible = chapter(page, 'quiz').locator('.quiz-question >> visible=true');
  expect(await visible.count()).toBe(1);
  await goTo(page, 'q7');
  expect(await visible.count()).toBe(1);
  expect(await chapter(page, 'quiz').getByRole('button', { name: 'Next' }).isDisabled()).toBe(true);
  await chapter(page, 'quiz').getByRole('button', { name: 'Back' }).click();
  expect(await visible.getAttribute('data-question')).toBe('q6');
  await page.emulateMedia({ media: 'print' });
  expect(await visible.count()).toBe(7);
  const embedded = await openPage('?embed=quiz', { heading: 'Quiz', level: 2 });
  await expect.poll(() => embedded.locator('.quiz-question >> visible=true').count()).toBe(7);
});

test('replies to every answer, and only one of each question is right', async () => {
  const page = await openPage('#quiz');
  for (const [id, right] of Object.entries(RIGHT)) {
    await goTo(page, id);
    const { reply, radio, radios, link } = question(page, id);
    expect(await reply.innerText()).toBe('');
    for (const letter of ['a', 'b', 'c', 'd'].slice(0, await radios.count())) {
      await radio(letter).check();
      expect(await reply.innerText()).toMatch(letter === right ? /^Right\./ : /^Not quite\./);
      expect(await link.count()).toBe(1);
    }
    await radio(right).check();
  }
  expect(await chapter(page, 'quiz').locator('[data-stat=score]').innerText()).toBe(
    '7 of 7 right, 7 answered.',
  );
});

test('answers point to the chapter that shows them, and a link keeps them', async () => {
  const page = await openPage(`#quiz?${ALL_RIGHT}`);
  const score = chapter(page, 'quiz').locator('[data-stat=score]');
  expect(await score.innerText()).toBe('7 of 7 right, 7 answered.');
  for (const [id, target] of [
    ['q1', 'axes'],
    ['q2', 'highway'],
    ['q3', 'placement'],
    ['q4', 'step-by-step'],
    ['q5', 'placement'],
    ['q6', 'placement'],
    ['q7', 'placement'],
  ]) {
    await goTo(page, id);
    await question(page, id).link.click();
    expect(new URL(page.url()).hash).toMatch(new RegExp(`^#${target}\\?`));
  }
  await chapter(page, 'quiz').getByRole('button', { name: 'Reset chapter' }).click();
  expect(await score.innerText()).toBe('No question answered yet.');
  await expect.poll(() => new URL(page.url()).hash).not.toContain('qz.');
});

test('post-norm’s sum does not grow, pre-norm’s stream does', async () => {
  const page = await openPage('#quiz?qz.q5=a&qz.q6=d');
  expect(await question(page, 'q5').reply.innerText()).toContain('nothing accumulates');
  expect(await question(page, 'q6').reply.innerText()).toContain('grows linearly');
});

test('by keyboard alone', async () => {
  const page = await openPage('#quiz');
  await goTo(page, 'q3');
  const { radio, reply } = question(page, 'q3');
  await page.getByRole('radio', { name: 'y is x plus F of LN of x' }).focus();
  await page.keyboard.press('ArrowDown');
  expect(await radio('b').isChecked()).toBe(true);
  expect(await reply.innerText()).toContain('That is post-norm');
  await page.keyboard.press('Tab');
  await page.keyboard.press('Enter');
  await expect.poll(() => new URL(page.url()).hash).toMatch(/^#placement/);
});

test('an answer that is none gets a word', async () => {
  const page = await openPage('#quiz?qz.q4=d&qz.q1=b');
  expect(await question(page, 'q4').reply.innerText()).toBe('The answer in the link is not valid.');
  expect(await question(page, 'q1').reply.innerText()).toMatch(/^Right\./);
});

test('fits 360 px, and has no accessibility finding', LONG, async () => {
  const narrow = await openPage('#quiz?qz.q2=d', { width: 360 });
  const width = await narrow.evaluate(() => document.documentElement.scrollWidth);
  expect(width).toBeLessThanOrEqual(360);
  const page = await openPage('#quiz?qz.q1=b&qz.q2=a');
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme });
    expect(await findings(page, '#quiz')).toEqual([]);
  }
});
