// The page in another language, which stands here for all: each letter of a translation is a wide one,
// so that a text in plain letters has not been translated.

import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { Locator } from 'playwright-core';
import { expect, test } from 'vitest';
import { parsePo } from '../plugins/po';
import { chapter, openPage, type PageOptions, seriousFindings } from './page';

const list = fileURLToPath(new URL('../src/locales/en.po', import.meta.url));

/** ａ for a, without the values and elements of a message. */
function wide(message: string): string {
  const letter = (c: string) => String.fromCharCode(c.charCodeAt(0) + 0xfee0);
  return message
    .split(/(\{\w+\}|<\/?\d+\/?>)/)
    .map((part, i) => (i % 2 ? part : part.replace(/[a-z]/gi, letter)))
    .join('');
}

const catalogue = () => {
  const entries = parsePo(readFileSync(list, 'utf8'));
  return Object.fromEntries(
    entries.map(({ id, plural }) => [id, plural ? [wide(id), wide(plural)] : [wide(id)]]),
  );
};

const inWideLetters: PageOptions = {
  changed: {
    '**/first.js': (text) => text.replace(/LANGUAGES = \[.*\]/, "LANGUAGES = ['en', 'de']"),
    '**/locales/de.js': () => `globalThis.catalogue = ${JSON.stringify(catalogue())}`,
  },
};

/** What a reader sees or hears there in plain words, but for names and code. */
async function plainTexts(part: Locator): Promise<string[]> {
  const texts = await part.evaluateAll((parts) => {
    const isCode = (element: Element) =>
      element.closest('code, pre, style, .katex, .formula, .closing-references, option[lang]');
    const ATTRIBUTES = ['aria-label', 'aria-valuetext', 'title', 'placeholder', 'alt'];
    return parts.flatMap((part) =>
      [part, ...part.querySelectorAll('*')]
        .filter((element) => !isCode(element))
        .flatMap((element) => [
          ...ATTRIBUTES.map((name) => element.getAttribute(name) ?? ''),
          ...[...element.childNodes].map((node) =>
            node.nodeType === Node.TEXT_NODE ? node.textContent! : '',
          ),
        ]),
    );
  });
  return [...new Set(texts)].filter((text) => /[a-z]{3}/i.test(text.replace(NAMES, '')));
}

/** What has no translation. */
const NAMES =
  /\b(What does a deep network forget|LayerNorm|RMSNorm|BatchNorm|InstanceNorm|GroupNorm|Xavier|d_model|Add|Norm|SVG|PNG|CSV|RMS|n_heads|d_head|softmax|ReLU|Transformer base|GPT-2 small|GPT-3|mean\(g|block\.cc|docs\/theory\.md|PyTorch|BERT|Llama|Python|JavaScript|Var)\b/g;

test('the page frame has no text that is not translated', async () => {
  const page = await openPage('?lang=de', inWideLetters);
  await page.getByText(wide('It carries.')).waitFor();
  expect(await page.evaluate(() => document.documentElement.lang)).toBe('de');
  expect(await page.title()).toBe(wide('Add & Norm, to see, touch and try'));
  expect(await plainTexts(page.locator('header, [role=toolbar], nav, .closing, footer'))).toEqual(
    [],
  );
  expect(await seriousFindings(page, 'header, [role=toolbar], nav, footer')).toEqual([]);
});

/** The chapters whose text is in the catalogue. */
const TRANSLATED = [
  'add-norm',
  'step-by-step',
  'geometry',
  'axes',
  'backward',
  'block',
  'quiz',
  'lab',
];

test.each(TRANSLATED)('%s has no text that is not translated', async (id) => {
  const page = await openPage(`?lang=de#${id}`, inWideLetters);
  const section = chapter(page, id);
  await section.locator('.wait, [aria-busy=true]').first().waitFor({ state: 'detached' });
  expect(await plainTexts(section)).toEqual([]);
  expect(await seriousFindings(page, `#${id}`)).toEqual([]);
});

test('a presentation has no text that is not translated', async () => {
  const page = await openPage('?lang=de&present#backward', { ...inWideLetters, level: 0 });
  await page.getByText(wide('Notes window')).waitFor();
  for (const key of ['n', 'g', '?']) {
    await page.keyboard.press(key);
    expect(await plainTexts(page.locator('.presenter')), key).toEqual([]);
  }
  const opened = page.context().waitForEvent('page');
  await page.keyboard.press('w');
  const speaker = await opened;
  await speaker.locator('.speaker-note').waitFor();
  expect(await plainTexts(speaker.locator('.speaker'))).toEqual([]);
});

test('the menu offers the languages, and keeps the state', async () => {
  const page = await openPage('?lang=de#highway?hw.layers=6', inWideLetters);
  const menu = page.getByLabel(wide('Language'));
  expect(await menu.locator('option').allTextContents()).toEqual(['English', 'Deutsch']);
  expect(await menu.inputValue()).toBe('de');
  await menu.selectOption('English');
  await page.getByRole('heading', { name: 'The highway' }).waitFor();
  expect(page.url()).toMatch(/\?lang=en#highway\?hw.layers=6$/);
  expect(await page.evaluate(() => document.documentElement.lang)).toBe('en');
});

test('an embedded chapter and its link to the whole page keep the language', async () => {
  const page = await openPage('?lang=de&embed=highway#highway', {
    ...inWideLetters,
    heading: wide('The highway'),
    level: 2,
  });
  const href = await page.locator('.embed-source a').getAttribute('href');
  expect(new URL(href!).search).toBe('?lang=de');
});

test('the browser’s language is taken where the address names none', async () => {
  const before = () =>
    Object.defineProperty(navigator, 'languages', { get: () => ['fr', 'de-AT', 'en'] });
  const page = await openPage('', { ...inWideLetters, before });
  expect(await page.evaluate(() => document.documentElement.lang)).toBe('de');
});
