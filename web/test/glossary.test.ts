// Definitions of terms: in the text of a chapter, and in the glossary.

import { expect, test } from 'vitest';
import { chapter, findings, openPage } from './page';

test('the first use of a term in a chapter has its definition, on hover, focus and tap', async () => {
  const page = await openPage('#highway');
  const scope = chapter(page, 'highway');
  const words = await scope.locator('.term-word').allTextContents();
  expect(words.map((word) => word.toLowerCase())).toContain('gradient');
  expect(new Set(words).size).toBe(words.length);
  const term = scope.getByRole('button', { name: 'gradient', exact: true });
  const tip = scope.getByRole('tooltip');
  expect(await tip.count()).toBe(0);

  await term.hover();
  expect(await tip.textContent()).toContain('how much the loss changes');
  await page.mouse.move(0, 0);
  expect(await tip.count()).toBe(0);

  await term.focus();
  expect(await term.getAttribute('aria-describedby')).toBe(await tip.getAttribute('id'));
  await page.keyboard.press('Escape');
  expect(await tip.count()).toBe(0);
});

test('a second tap, and a tap on the definition, close it', async () => {
  const page = await openPage('#highway', { width: 390, touch: true });
  const scope = chapter(page, 'highway');
  const tip = scope.getByRole('tooltip');
  const term = scope.locator('.term-word').first();
  await term.tap();
  expect(await tip.count()).toBe(1);
  await term.tap();
  expect(await tip.count()).toBe(0);
  await term.tap();
  await tip.tap();
  expect(await tip.count()).toBe(0);
});

test('a tap shows a definition inside the window', async () => {
  const page = await openPage('#highway', { width: 390, touch: true });
  const scope = chapter(page, 'highway');
  for (const term of await scope.locator('.term-word >> visible=true').all()) {
    await term.tap();
    const { x, width } = (await scope.getByRole('tooltip').boundingBox())!;
    expect(x).toBeGreaterThanOrEqual(0);
    expect(x + width).toBeLessThanOrEqual(390);
    await page.keyboard.press('Escape'); // it may cover the next term
  }
  expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(390);
});

test('the glossary at the end has every term', async () => {
  const page = await openPage();
  const glossary = page.locator('.glossary');
  const terms = glossary.locator('dt');
  expect(await terms.count()).toBeGreaterThan(20);
  expect(await terms.first().isVisible()).toBe(false);
  await glossary.locator('summary').click();
  for (const name of ['RMS', 'cosine', 'residual stream', 'logit lens', 'ε', 'γ and β']) {
    expect(await terms.getByText(name, { exact: true }).isVisible(), name).toBe(true);
  }
  expect(await findings(page, '.closing')).toEqual([]);
});
