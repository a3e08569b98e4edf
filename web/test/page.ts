// A page of the tutorial in Debian's Chromium. A test that uses it fails on a console error, an
// uncaught error, or a request to another host.

import axe from 'axe-core';
import type { Browser, Locator, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, expect, inject } from 'vitest';
import { launchChromium } from './chromium';

/** The chapters of the page, in their order. */
export const CHAPTERS = [
  'add-norm',
  'step-by-step',
  'geometry',
  'highway',
  'placement',
  'lanes',
  'axes',
  'backward',
  'block',
  'model',
  'quiz',
  'lab',
];

/** Marks a test that is too slow for every change. `make test-all` runs it. */
export const LONG = { tags: 'long' } as const;

export interface PageOptions {
  width?: number;
  height?: number;
  theme?: 'light' | 'dark';
  reducedMotion?: boolean;
  touch?: boolean;
  /** Whether chapters that are not near are loaded, which takes seconds of CPU time.
   * Otherwise the reader saves data. */
  everything?: boolean;
  /** Runs in the page before its own scripts. */
  before?(): void;
  /** The address of the page if `addnorm serve` does not serve it. */
  address?: string;
  /** The file of the page if it is not served. */
  file?: string;
  /** The element to wait for: the heading, or the error message in place of the page. */
  until?: 'heading' | 'alert';
  heading?: string;
  level?: number; // the heading's; 2 for an embedded chapter, 0 for none
  /** Another allowed address: that of a page in a frame. */
  framed?: string;
  /** Files to change: a pattern of their addresses, and a function of their text. */
  changed?: Record<string, (text: string) => string>;
  /** Errors that the page may report. */
  expected?: RegExp;
}

let browser: Browser;
const complaints: string[] = [];

beforeAll(async () => {
  browser = await launchChromium();
});
afterAll(() => browser.close());
afterEach(async () => {
  for (const context of browser.contexts()) await context.close();
  const found = complaints.splice(0);
  expect(found, 'what the page complained of').toEqual([]);
});

/** Opens the page at a link such as '#add-norm?an.gamma=2' and waits until
 * it and its chapter are loaded. */
export async function openPage(hash = '', options: PageOptions = {}): Promise<Page> {
  const address = options.file ? `file://${options.file}` : (options.address ?? inject('address'));
  const context = await browser.newContext({
    viewport: { width: options.width ?? 1280, height: options.height ?? 900 },
    colorScheme: options.theme ?? 'light',
    reducedMotion: options.reducedMotion === false ? 'no-preference' : 'reduce',
    hasTouch: options.touch ?? false,
  });
  const page = await context.newPage();
  const isExpected = (text: string) => options.expected?.test(text) ?? false;
  page.on('console', (message) => {
    if (message.type() === 'error' && !isExpected(message.text())) {
      complaints.push(`console: ${message.text()}`);
    }
  });
  page.on('pageerror', ({ message }) => {
    if (!isExpected(message)) complaints.push(`uncaught: ${message}`);
  });
  page.on('request', (request) => {
    const url = request.url();
    const own = [address, options.framed].some((from) => from && url.startsWith(from));
    if (!own && !/^(data|blob):/.test(url)) complaints.push(`request to ${url}`);
  });
  if (!options.everything) await page.addInitScript(saveData);
  if (options.before) await page.addInitScript(options.before);
  for (const [pattern, change] of Object.entries(options.changed ?? {})) {
    await page.route(pattern, async (route) => {
      const response = await route.fetch();
      await route.fulfill({ response, body: change(await response.text()) });
    });
  }
  await page.goto(`${address}${options.file ? '' : '/'}${hash}`);
  if (options.until === 'alert') {
    await page.getByRole('alert').waitFor();
    return page;
  }
  const { heading = 'Add & Norm', level = 1 } = options;
  if (level > 0) await page.getByRole('heading', { name: heading, level }).waitFor();
  const [, id] = hash.match(/#([\w-]+)/) ?? [];
  if (id) await page.locator(`section#${id} .chapter-room`).waitFor({ state: 'detached' });
  return page;
}

/** Waits until every chapter is loaded. A page opened at its top loads them after the reader's
 * first interaction, which this function triggers. */
export async function everyChapter(page: Page): Promise<void> {
  await page.mouse.wheel(0, 1);
  await page.waitForFunction(() => !document.querySelector('.chapter-room'));
}

function saveData(): void {
  Object.defineProperty(navigator, 'connection', { value: { saveData: true } });
}

/** Scrolls to the parts that are measured only when the reader is near, until all are measured. */
export async function measured(section: Locator): Promise<void> {
  const waiting = section.locator('.wait, [aria-busy=true]');
  for (let left = await waiting.count(); left > 0; left = await waiting.count()) {
    await waiting.evaluateAll(([first]) => first?.scrollIntoView()); // it may be gone by now
    await expect.poll(() => waiting.count(), { timeout: 30_000 }).toBeLessThan(left);
  }
}

/** The section of one chapter. */
export function chapter(page: Page, id: string): Locator {
  return page.locator(`section#${id}`);
}

/** Reads a number as the page writes it. */
export function read(text: string): number {
  return Number(text.replaceAll('−', '-'));
}

/** The full value of a number that the page shows rounded. */
export async function statistic(scope: Locator, name: string): Promise<number> {
  return Number(await scope.locator(`[data-stat="${name}"] data`).getAttribute('value'));
}

/** The numbers of one row of a chapter's tables. */
export async function vector(scope: Locator, id: string): Promise<number[]> {
  const cells = scope.locator(`tr[data-vector="${id}"]`).first().locator('td');
  return (await cells.allTextContents()).map(read);
}

/** Drags the middle of an element with a new touch. */
export async function dragByFinger(target: Locator, dx: number, dy: number): Promise<void> {
  await target.scrollIntoViewIfNeeded();
  const page = target.page();
  const { x, y, width, height } = (await target.boundingBox())!;
  const touch = await page.context().newCDPSession(page);
  const send = (type: 'touchStart' | 'touchMove' | 'touchEnd', part: number) =>
    touch.send('Input.dispatchTouchEvent', {
      type,
      touchPoints:
        type === 'touchEnd'
          ? []
          : [{ x: x + width / 2 + part * dx, y: y + height / 2 + part * dy }],
    });
  await send('touchStart', 0);
  for (const part of [0.25, 0.5, 0.75, 1]) await send('touchMove', part);
  await send('touchEnd', 1);
}

/** The findings of axe-core in the part of the page that a selector gives. Removes the other
 * chapters, which axe would search for seconds. */
export async function findings(page: Page, selector: string): Promise<string[]> {
  await page.evaluate(axe.source);
  const results = await page.evaluate(async (within) => {
    document.querySelectorAll(`.chapter:not(${within})`).forEach((other) => other.remove());
    const { violations } = await (window as unknown as { axe: typeof axe }).axe.run(within);
    return violations;
  }, selector);
  return results.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html).join(' ')}`);
}
