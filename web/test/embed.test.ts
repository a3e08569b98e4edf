// An embedded chapter: ?embed=CHAPTER&hide=PARTS.

import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Page } from 'playwright-core';
import { expect, inject, test } from 'vitest';
import { chapters } from '../src/chapters';
import { hasSingleFile, singleFile } from './builds';
import { chapter, findings, openPage, type PageOptions, vector } from './page';

async function embed(query: string, heading: string, options: PageOptions = {}): Promise<Page> {
  const page = await openPage(`?embed=${query}`, { heading, level: 2, ...options });
  await page.locator('.chapter-room').waitFor({ state: 'detached' });
  return page;
}

test('shows one chapter without the frame', async () => {
  const page = await embed('axes', 'Which axes');
  expect(await page.locator('section.chapter').count()).toBe(1);
  for (const role of ['navigation', 'banner', 'contentinfo'] as const) {
    expect(await page.getByRole(role).count(), role).toBe(0);
  }
  expect(await page.locator('.toolbar, canvas').count()).toBe(0);
  expect(await page.title()).toBe('Which axes · Add & Norm');
  expect(await chapter(page, 'axes').locator('.drawing').first().isVisible()).toBe(true);
});

test('has the state of its address, and links to the whole page in it', async () => {
  const page = await embed('step-by-step#step-by-step?st.x=5,6,9', 'Step by step');
  expect(await vector(chapter(page, 'step-by-step'), 'x')).toEqual([5, 6, 9]);
  const source = page.getByRole('link', { name: 'Open in the tutorial' });
  await page.getByRole('button', { name: 'Equal values' }).click();
  const [whole] = await Promise.all([page.context().waitForEvent('page'), source.click()]);
  await whole.getByRole('heading', { level: 1 }).waitFor();
  expect(new URL(whole.url()).search).toBe('');
  await expect.poll(() => vector(chapter(whole, 'step-by-step'), 'x')).toEqual([3, 3, 3, 3]);
});

test('questions and their replies stay without the text, and go with the controls', async () => {
  const page = await embed('backward&hide=text', 'Backward');
  const guess = page.locator('.guess');
  await guess.getByRole('radio', { name: 'Zero' }).check();
  expect(await guess.innerText()).toContain('Right.');
  expect(await guess.getByText('so the gradient is zero').isVisible()).toBe(true);
  const bare = await embed('backward&hide=controls', 'Backward');
  expect(await bare.locator('.guess').isVisible()).toBe(false);
});

test('links to other chapters open these in the whole page', async () => {
  const page = await embed('backward', 'Backward');
  const link = chapter(page, 'backward').getByRole('link', { name: 'the highway' });
  expect(await link.getAttribute('target')).toBe('_blank');
  expect(await link.getAttribute('href')).toBe(`${inject('address')}/#highway`);
});

test('has the theme that is asked for, and leaves the reader’s alone', async () => {
  const page = await embed('quiz&theme=dark', 'Quiz');
  const theme = () => page.evaluate(() => document.documentElement.dataset.theme);
  expect(await theme()).toBe('dark');
  expect(await page.evaluate(() => localStorage.getItem('theme'))).toBe(null);
  await page.goto(`${inject('address')}/?embed=quiz`);
  await page.getByRole('heading', { name: 'Quiz', level: 2 }).waitFor();
  expect(await theme()).toBe('light');
});

const SEEN: Record<string, string> = {
  title: 'h2',
  text: '.chapter p:not(.figure *)',
  controls: '.slider, .choice, .text-field, .chapter .button:not(.chapter-head *)',
  figures: '.drawing',
  formulas: 'div.formula',
  tables: 'table:not(.numbers *)',
  source: '.embed-source',
};

test.each([
  [[]],
  [['text', 'controls']],
  [['title', 'text', 'controls', 'formulas', 'tables', 'source']],
  [['figures', 'tables']],
])('hides %j and nothing else', async (parts) => {
  const page = await embed(`highway&hide=${parts.join()}#highway?hw.layers=3`, 'The highway', {
    level: parts.some((part) => part === 'title') ? 0 : 2,
  });
  await page.locator('.charts').waitFor({ state: 'attached' });
  await page.locator('[data-gradient]').first().waitFor({ state: 'attached' });
  for (const [part, selector] of Object.entries(SEEN)) {
    const all = await page.locator(selector).all();
    const seen = (await Promise.all(all.map((element) => element.isVisible()))).filter(Boolean);
    if (parts.some((hidden) => hidden === part)) expect(seen, part).toEqual([]);
    else expect(seen.length, part).toBeGreaterThan(0);
  }
});

const EVERYTHING = 'title,text,controls,figures,formulas,tables,code,source';

test.each(chapters.map(({ source }) => source.id))(
  'of %s nothing is left where all is hidden',
  async (id) => {
    const page = await openPage(`?embed=${id}&hide=${EVERYTHING}`, { level: 0 });
    await page.locator('.chapter h2').waitFor({ state: 'attached' });
    await page.locator('.chapter-room').waitFor({ state: 'detached' });
    await page.waitForFunction(() => !document.querySelector('.wait')); // the lab takes seconds
    const left = await page.evaluate(() =>
      [...document.querySelectorAll<HTMLElement>('.chapter *')]
        .filter((e) => e.children.length === 0 && e.checkVisibility())
        .filter((e) => e.textContent!.trim() || e.matches('input'))
        .filter((e) => !e.closest('.numbers, .problem, .quiz-question')) // not part of any of them
        .map((e) => e.outerHTML.slice(0, 100)),
    );
    expect(left).toEqual([]);
  },
);

test('a chapter or a part that is none is told of in one sentence', async () => {
  const unknown = await openPage('?embed=highways', { until: 'alert' });
  expect(await unknown.getByRole('alert').textContent()).toMatch(
    /^“highways” is not a chapter; the chapters are add-norm, step-by-step, .*, lab\.$/,
  );
  expect(await unknown.locator('section, .embed-source').count()).toBe(0);
  const page = await openPage('?embed=quiz&hide=texts', { until: 'alert' });
  expect(await page.getByRole('alert').textContent()).toMatch(
    /^“texts” cannot be hidden; these can: title, text, .*, source\.$/,
  );
});

async function copied(page: Page, id: string): Promise<string> {
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
  await chapter(page, id).getByRole('button', { name: 'Copy embed' }).click();
  await chapter(page, id).getByText('Copied').waitFor();
  return page.evaluate(() => navigator.clipboard.readText());
}

test('“Open alone” opens the chapter by itself, in its state', async () => {
  const source = await openPage('?lang=en#step-by-step?st.x=5,6,9');
  const link = chapter(source, 'step-by-step').getByRole('link', { name: 'Open alone' });
  const [alone] = await Promise.all([source.context().waitForEvent('page'), link.click()]);
  await alone.locator('.embed').waitFor();
  expect(new URL(alone.url()).search).toBe('?lang=en&embed=step-by-step');
  await expect.poll(() => vector(chapter(alone, 'step-by-step'), 'x')).toEqual([5, 6, 9]);
  expect(await alone.getByRole('link', { name: 'Open alone' }).count()).toBe(0);
});

/** A page of another site with this HTML in its middle. */
async function host(html: string) {
  const own = '<button autofocus>Own</button>';
  const body = `<!doctype html><title>Host</title><h1>Host</h1>${own}${html}<p style="height: 1200px"></p>`;
  const server = createServer((request, response) => {
    response.writeHead(request.url === '/' ? 200 : 404, { 'Content-Type': 'text/html' });
    response.end(request.url === '/' ? body : '');
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  const { port } = server.address() as AddressInfo;
  return { address: `http://127.0.0.1:${port}`, stop: () => server.close() };
}

test('the copied HTML shows the chapter in a page of another site, and fits it', async () => {
  const source = await openPage('#step-by-step?st.x=5,6,9');
  const html = await copied(source, 'step-by-step');
  expect(html).toContain('?embed=step-by-step#step-by-step?st.x=5,6,9"');
  const { address, stop } = await host(html);
  const expected = /favicon/;
  const page = await openPage('', {
    address,
    heading: 'Host',
    framed: inject('address'),
    expected,
  });
  const frame = page.frameLocator('iframe');
  await frame.locator('.chapter-room').first().waitFor({ state: 'detached' });
  expect(await vector(frame.locator('#step-by-step'), 'x')).toEqual([5, 6, 9]);
  const sizes = () =>
    frame.locator(':root').evaluate((root) => [root.scrollHeight, innerHeight] as const);
  const fits = async () => {
    const [content, window] = await sizes();
    return content === window && content > 1000;
  };
  await expect.poll(fits).toBe(true);
  expect(await page.evaluate(() => scrollY)).toBe(0);
  const [before] = await sizes();
  await frame.getByText('As in PyTorch, BERT').click();
  await expect.poll(async () => (await sizes())[0]).toBeGreaterThan(before);
  await expect.poll(fits).toBe(true);
  stop();
});

test('without the script the frame scrolls, and takes neither focus nor place', async () => {
  const address = inject('address');
  const html = `<iframe src="${address}/?embed=axes#axes?ax.kind=batch" height="300"></iframe>`;
  const site = await host(html);
  const page = await openPage('', {
    address: site.address,
    heading: 'Host',
    framed: address,
    expected: /favicon/,
  });
  const frame = page.frameLocator('iframe');
  await frame.locator('.chapter-room').waitFor({ state: 'detached' });
  expect(await frame.locator(':root').evaluate((root) => root.scrollHeight)).toBeGreaterThan(300);
  expect(await page.evaluate(() => [document.activeElement!.textContent, scrollY])).toEqual([
    'Own',
    0,
  ]);
  site.stop();
});

test.each(['light', 'dark'] as const)('axe finds nothing, %s; 360 px do', async (theme) => {
  const page = await embed('add-norm', 'Add & Norm', { theme, width: 360 });
  expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(360);
  expect(await findings(page, '.embed')).toEqual([]);
});

test.skipIf(!hasSingleFile)('the one file shows a chapter alone as well', async () => {
  const page = await embed('quiz&hide=source&theme=dark', 'Quiz', { file: singleFile });
  expect(await page.locator('section.chapter').count()).toBe(1);
  expect(await page.evaluate(() => document.documentElement.dataset.theme)).toBe('dark');
  expect(await page.locator('.embed-source').isVisible()).toBe(false);
});
