// The page as a whole: the parts that all chapters share.

import { createReadStream, readdirSync, readFileSync, statSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import type { Locator } from 'playwright-core';
import { expect, test } from 'vitest';
import { chapter, CHAPTERS, everyChapter, findings, measured, openPage, vector } from './page';

const folder = process.env.TUTORIAL ?? fileURLToPath(new URL('../dist', import.meta.url));

test('lists its chapters, and each entry goes to its chapter', async () => {
  const page = await openPage();
  const links = page.getByRole('navigation', { name: 'Chapters' }).getByRole('link');
  expect(await links.count()).toBe(CHAPTERS.length);
  for (const [i, id] of CHAPTERS.entries()) {
    await links.nth(i).click();
    expect(new URL(page.url()).hash).toBe(`#${id}`);
    await page.waitForFunction(
      (name) => document.querySelector(`#${name} h2`)!.getBoundingClientRect().bottom < innerHeight,
      id,
    );
  }
});

test('a link reopens exactly this state, at its chapter', async () => {
  const page = await openPage('#step-by-step?an.gamma=2.5&an.residual=0&st.x=5,6,9');
  expect(await page.getByLabel('Gamma (γ)').first().inputValue()).toBe('2.5');
  expect(await page.getByLabel('Enable Residual Connection').isChecked()).toBe(false);
  expect(await vector(chapter(page, 'step-by-step'), 'x')).toEqual([5, 6, 9]);
  await page.waitForFunction(
    () => Math.abs(document.getElementById('step-by-step')!.getBoundingClientRect().top) < 200,
  );
  await page.getByLabel('Enable Residual Connection').check();
  await page.waitForFunction(() => !location.hash.includes('residual'));
  expect(page.url()).toContain('#step-by-step?an.gamma=2.5&st.x=5,6,9');
});

test('an address that a program has escaped is read, and a chapter that is none is told of', async () => {
  const page = await openPage('#add-norm%3Fan.gamma=2.5%26an.beta=1');
  expect(await page.getByLabel('Gamma (γ)').first().inputValue()).toBe('2.5');
  expect(await page.getByLabel('Beta (β)').first().inputValue()).toBe('1');
  await page.evaluate(() => (location.hash = '#nochapter?an.gamma=2'));
  const alert = page.getByRole('alert');
  await alert.waitFor();
  expect(await alert.textContent()).toContain('“nochapter” is not a chapter of this page');
  expect(await page.getByLabel('Gamma (γ)').first().inputValue()).toBe('2');
});

test('the skip link and the chapters’ links keep the state', async () => {
  const page = await openPage('#step-by-step?an.gamma=2.5');
  await page.getByText('Skip to the first chapter').focus();
  await page.keyboard.press('Enter');
  expect(await page.getByLabel('Gamma (γ)').first().inputValue()).toBe('2.5');
  expect(page.url()).toContain('#add-norm?an.gamma=2.5');
  expect(await page.evaluate(() => document.activeElement!.id)).toBe('add-norm');
});

test('what a text box refused goes with a reset', async () => {
  const page = await openPage('#step-by-step?st.x=1,two');
  const box = page.getByRole('textbox', { name: 'Vector' });
  expect(await box.inputValue()).toBe('1,two'); // beside its error message
  await page.getByRole('button', { name: 'Reset all' }).click();
  expect(await box.inputValue()).toBe('1, 2, 3, 4');
  await box.fill('1 two');
  expect(await vector(chapter(page, 'step-by-step'), 'x')).toEqual([1, 2, 3, 4]);
  await page.getByRole('button', { name: 'Reset all' }).click();
  expect(await box.inputValue()).toBe('1, 2, 3, 4');
});

test('a new address in the same tab changes the state', async () => {
  const page = await openPage('#add-norm?an.gamma=2');
  await page.evaluate(() => (location.hash = '#add-norm?an.gamma=0.5'));
  await expect.poll(() => page.getByLabel('Gamma (γ)').first().inputValue()).toBe('0.5');
});

test('a finger drags the end of a bar at once; a swipe over the rest of it scrolls', async () => {
  const page = await openPage('#add-norm', { width: 360, touch: true });
  const bar = chapter(page, 'add-norm').getByRole('slider', { name: 'x 2', exact: true });
  const grip = bar.locator('.grip');
  const touchAction = (part: Locator) => part.evaluate((e) => getComputedStyle(e).touchAction);
  expect(await touchAction(bar.locator('rect').first())).toBe('pan-y');
  expect(await touchAction(grip)).toBe('none');
  await grip.scrollIntoViewIfNeeded();
  const { x, y, width, height } = (await grip.boundingBox())!;
  expect(height).toBeGreaterThanOrEqual(44);
  expect(width).toBeGreaterThanOrEqual(24); // neighbours are dragged up and down, not sideways
  const touch = await page.context().newCDPSession(page);
  const finger = (type: 'touchStart' | 'touchMove' | 'touchEnd', dy = 0) =>
    touch.send('Input.dispatchTouchEvent', {
      type,
      touchPoints: type === 'touchEnd' ? [] : [{ x: x + width / 2, y: y + height / 2 + dy }],
    });
  expect(await bar.getAttribute('aria-valuenow')).toBe('-0.4');
  const scrolled = await page.evaluate(() => scrollY);
  await finger('touchStart');
  for (const dy of [-15, -30, -45, -60]) await finger('touchMove', dy);
  await finger('touchEnd');
  expect(await bar.getAttribute('aria-valuenow')).toBe('1');
  // The drag's 60 pixels did not scroll the page. Formulas may still move it
  // a little when their fonts load.
  expect(Math.abs((await page.evaluate(() => scrollY)) - scrolled)).toBeLessThan(20);
});

test('the contents mark the chapter in sight, and stay at hand on phones', async () => {
  const page = await openPage('#axes', { width: 390, touch: true });
  const contents = page.getByRole('navigation', { name: 'Chapters' });
  const current = contents.locator('[aria-current]');
  await expect.poll(() => current.allTextContents()).toEqual(['Which axes']);
  const isInSight = () =>
    current.evaluate((link) => {
      const { left, right, top } = link.getBoundingClientRect();
      return left >= 0 && right <= innerWidth && top >= 0 && top < 60;
    });
  await expect.poll(isInSight).toBe(true);
  await contents.getByRole('link', { name: 'Quiz' }).click();
  await expect.poll(() => current.allTextContents()).toEqual(['Quiz']);
});

test.each([
  [44, { width: 390, touch: true }],
  [24, { width: 1280 }],
])('what is pressed is at least %i pixels large', async (least, options) => {
  const page = await openPage('', { ...options, everything: true });
  await everyChapter(page);
  const small = await page.evaluate((least) => {
    const controls = 'button, input, select, summary, textarea, nav a, .diagram .slot';
    return [...document.querySelectorAll(controls)]
      .filter((element) => element.checkVisibility())
      .map((element) => element.closest('label') ?? element)
      .filter((element) => {
        const { width, height } = element.getBoundingClientRect();
        return Math.min(width, height) < least - 0.5;
      })
      .map((element) => element.outerHTML.slice(0, 120));
  }, least);
  expect(small).toEqual([]);
});

test.each(['add-norm', 'step-by-step', 'highway'])(
  'on a phone, the button that saves a figure of %s lies over no drawing',
  async (id) => {
    const page = await openPage(`#${id}`, { width: 390, touch: true });
    await measured(chapter(page, id));
    const covered = await chapter(page, id)
      .locator('.figure')
      .evaluateAll((figures) =>
        figures.flatMap((figure) => {
          const [drawing, button] = ['.drawing', '.save-menu > summary'].map((part) =>
            figure.querySelector(part)!.getBoundingClientRect(),
          );
          const isOutside = button.top >= drawing.bottom - 1 || button.bottom <= drawing.top + 1;
          return isOutside || button.height === 0 ? [] : [figure.querySelector('svg')!.ariaLabel];
        }),
      );
    expect(covered).toEqual([]);
  },
);

test('a figure is saved as SVG and PNG with its colours, and as CSV with its numbers', async () => {
  const page = await openPage('', { theme: 'dark' });
  const scope = chapter(page, 'add-norm');
  const save = async (format: string) => {
    await scope.locator('summary', { hasText: '⤓' }).first().click();
    const [file] = await Promise.all([
      page.waitForEvent('download'),
      scope.getByRole('button', { name: format, exact: true }).first().click(),
    ]);
    await scope.locator('summary', { hasText: '⤓' }).first().click();
    expect(file.suggestedFilename()).toBe(`stage-a-the-addition.${format.toLowerCase()}`);
    return readFileSync(await file.path());
  };
  const svg = (await save('SVG')).toString();
  expect(svg).toMatch(/^<svg [^>]*width="700" height="350"/);
  expect(svg).not.toMatch(/var\(|class="bar-handle|<script|href/);
  for (const colour of ['rgb(0, 255, 255)', 'rgb(255, 136, 0)', 'rgb(255, 215, 0)']) {
    expect(svg).toContain(`fill="${colour}"`);
  }
  const png = await save('PNG');
  expect(png.subarray(1, 4).toString()).toBe('PNG');
  expect([png.readUInt32BE(16), png.readUInt32BE(20)]).toEqual([1400, 700]);
  const rows = (await save('CSV')).toString().trim().split('\n');
  expect(rows.map((row) => row.split(',')[0])).toEqual([
    'vector',
    'x',
    'identity path',
    'F(x)',
    's = x + F(x)',
  ]);
  expect(rows[1].split(',').slice(1).map(Number)).toEqual([0.8, -0.4, 0.3, -0.7, 0.5]);
});

test('bars move to where a button puts them, but not for readers who want no motion', async () => {
  const seconds = async (reducedMotion: boolean) => {
    const page = await openPage('', { reducedMotion });
    return page
      .locator('.bar')
      .first()
      .evaluate((bar) =>
        Math.max(...getComputedStyle(bar).transitionDuration.split(',').map(parseFloat)),
      );
  };
  expect(await seconds(true)).toBe(0);
  expect(await seconds(false)).toBe(0.5);
});

test('no label of a figure is smaller than 12 pixels at 360', async () => {
  const page = await openPage('#highway', { width: 360, everything: true });
  await page.getByText('four stacks of').waitFor();
  const sizes = await page
    .locator('.drawing text')
    .evaluateAll((all) => all.map((text) => parseFloat(getComputedStyle(text).fontSize)));
  expect(sizes.length).toBeGreaterThan(100);
  expect(Math.min(...sizes)).toBeGreaterThanOrEqual(12);
});

test('undo, redo and reset, by button and by keyboard', async () => {
  const page = await openPage();
  const gamma = page.getByLabel('Gamma (γ)').first();
  await gamma.focus();
  await page.keyboard.press('ArrowRight');
  expect(await gamma.inputValue()).toBe('1.1');
  await page.getByRole('button', { name: 'Undo', exact: true }).click();
  expect(await gamma.inputValue()).toBe('1');
  await page.getByRole('button', { name: 'Redo', exact: true }).click();
  expect(await gamma.inputValue()).toBe('1.1');
  await page.keyboard.press('Control+z');
  expect(await gamma.inputValue()).toBe('1');
  await page.keyboard.press('Control+Shift+z');
  expect(await gamma.inputValue()).toBe('1.1');
  await page.getByRole('button', { name: 'Reset all' }).click();
  expect(await gamma.inputValue()).toBe('1');
  await page.keyboard.press('Control+z');
  expect(await gamma.inputValue()).toBe('1.1');
});

test('a mangled link is told of, and what can be used of it is', async () => {
  const page = await openPage(
    '#add-norm?an.gamma=9&an.x=1,2&an.beta=1.5&old.thing=3&an.residual=%zz',
  );
  const alert = page.getByRole('alert');
  await alert.waitFor();
  const words = await alert.textContent();
  for (const part of ['an.gamma is 9', 'an.x has 2 values', '“old.thing”', 'an.residual']) {
    expect(words).toContain(part);
  }
  expect(await page.getByLabel('Beta (β)').first().inputValue()).toBe('1.5');
  expect(await page.getByLabel('Gamma (γ)').first().inputValue()).toBe('1');
  await page.getByRole('button', { name: 'Reset all' }).click();
  await expect.poll(() => alert.count()).toBe(0);
});

test('the numbers are there for screen readers, and in sight where asked for', async () => {
  const page = await openPage();
  const table = chapter(page, 'add-norm').locator('table').first();
  expect((await table.boundingBox())!.width).toBeGreaterThan(100);
  expect(await table.evaluate((t) => getComputedStyle(t.closest('.numbers')!).position)).toBe(
    'absolute',
  );
  await page.getByRole('button', { name: 'Show numbers' }).click();
  expect(await table.evaluate((t) => getComputedStyle(t.closest('.numbers')!).position)).toBe(
    'static',
  );
});

test('the theme is the reader’s choice, and stays', async () => {
  const page = await openPage();
  const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const light = await ground();
  await page.getByLabel('Theme').selectOption('dark');
  const dark = await ground();
  expect(dark).not.toBe(light);
  await page.reload();
  await page.getByRole('heading', { level: 1 }).waitFor();
  expect(await ground()).toBe(dark);
});

test('without WebAssembly SIMD there is a sentence that says so', async () => {
  const page = await openPage('', {
    before: () => (WebAssembly.validate = () => false),
    until: 'alert',
  });
  expect(await page.getByRole('alert').textContent()).toContain('WebAssembly SIMD');
});

test.each(['light', 'dark'] as const)('axe finds nothing, %s', async (theme) => {
  const page = await openPage('', { theme });
  expect(await findings(page, 'header, .toolbar, nav, footer')).toEqual([]);
});

test.each([360, 768, 1280])('nothing is wider than the page at %d px', async (width) => {
  const page = await openPage('', { width, everything: true });
  await everyChapter(page);
  expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(
    width,
  );
});

test.each([390, 1280, 1920])(
  'the room kept for a chapter is about its height, %d px',
  async (width) => {
    const page = await openPage('', { width, everything: true });
    const heights = () =>
      page.evaluate(() =>
        [...document.querySelectorAll('.chapter')].map((e) => e.getBoundingClientRect().height),
      );
    const kept = await heights();
    expect(await page.locator('.chapter-room').count()).toBeGreaterThan(5);
    await everyChapter(page);
    (await heights()).forEach((height, i) => {
      expect(Math.abs(kept[i] / height - 1), CHAPTERS[i]).toBeLessThan(0.08);
    });
  },
);

test.each([390, 1920])(
  'a link opens its chapter at the head, whatever is loaded meanwhile, %d px',
  async (width) => {
    const page = await openPage('#geometry', { width, everything: true, reducedMotion: false });
    await page.waitForFunction(() => !document.querySelector('.chapter-room'));
    const top = (id: string) =>
      chapter(page, id).evaluate((element) => element.getBoundingClientRect().top);
    expect(Math.abs((await top('geometry')) - 60)).toBeLessThan(30); // below the toolbar
    await page.getByRole('navigation', { name: 'Chapters' }).getByText('Quiz').click();
    expect(Math.abs((await top('quiz')) - 60)).toBeLessThan(30);
  },
);

test.each([
  ['#quiz', 390],
  ['#quiz', 1280],
  ['#add-norm', 1280],
])('focus on what sticks does not scroll the page, %s at %d px', async (hash, width) => {
  const page = await openPage(hash, { width });
  if (hash === '#add-norm') await page.getByRole('button', { name: 'Start tour' }).click();
  await page.waitForLoadState('networkidle');
  const bars = width < 640 ? '.contents' : '.toolbar, .contents, .an-tour';
  const moves = await page.evaluate((bars) => {
    const controls = [...document.querySelectorAll<HTMLElement>(bars)].flatMap((bar) => [
      ...bar.querySelectorAll<HTMLElement>('a, button:enabled, select'),
    ]);
    return controls.map((control) => {
      const before = scrollY;
      control.focus();
      return Math.abs(scrollY - before);
    });
  }, bars);
  expect(moves.length).toBeGreaterThan(10);
  expect(Math.max(...moves)).toBe(0);
});

test('a reader who saves data gets a chapter when it is near, and no other', async () => {
  const page = await openPage('#quiz');
  await page.waitForLoadState('networkidle');
  const room = (id: string) => chapter(page, id).locator('.chapter-room').count();
  expect([await room('geometry'), await room('lanes')]).toEqual([1, 1]);
  await chapter(page, 'lanes').scrollIntoViewIfNeeded();
  await expect.poll(() => room('lanes')).toBe(0);
  expect(await room('geometry')).toBe(1);
});

test('works from a sub-path of any static server, and then without it', async () => {
  const types: Record<string, string> = {
    '.html': 'text/html',
    '.js': 'text/javascript',
    '.css': 'text/css',
  };
  const server = createServer((request, response) => {
    const path = new URL(request.url!, 'http://x').pathname.replace('/deep/down/', '/');
    const file = join(folder, path === '/' ? 'index.html' : path);
    response.setHeader('Content-Type', types[extname(file)] ?? 'application/octet-stream');
    createReadStream(file)
      .on('error', () => response.writeHead(404).end())
      .pipe(response);
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  const { port } = server.address() as AddressInfo;
  const address = `http://127.0.0.1:${port}/deep/down`;
  const page = await openPage('', { address, everything: true });
  await everyChapter(page);
  const came = () => performance.getEntriesByType('resource').map(({ name }) => name);
  await expect.poll(async () => (await page.evaluate(came)).join()).toMatch(/genesis/); // the last
  await page.waitForLoadState('networkidle');
  await page.context().setOffline(true);
  server.closeAllConnections();
  server.close();
  const gamma = page.getByLabel('Gamma (γ)').first();
  await gamma.focus();
  await page.keyboard.press('ArrowRight');
  const scope = chapter(page, 'add-norm');
  const [normalized, output] = [await vector(scope, 'normalized'), await vector(scope, 'output')];
  output.forEach((y, i) => expect(y).toBeCloseTo(1.1 * normalized[i], 5));
});

test('the first load is below 500 KB compressed, without fonts', async () => {
  const page = await openPage();
  const loaded = await page.evaluate(() =>
    performance.getEntriesByType('resource').map((entry) => new URL(entry.name).pathname),
  );
  const files = ['/index.html', ...loaded].filter((path) => !/\.(woff2?|ttf)$/.test(path));
  const sizes = files.map((path) => gzipSync(readFileSync(join(folder, path))).length);
  const total = sizes.reduce((sum, size) => sum + size, 0);
  console.log(`first load: ${Math.round(total / 1000)} KB compressed in ${files.length} files`);
  expect(total).toBeLessThan(500_000);
});

test('no file of the build names another host to load from', () => {
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).map((f) =>
    join(folder, f),
  );
  const page = files.filter((file) => statSync(file).isFile() && /\.(html|css)$/.test(file));
  for (const file of page) {
    const loads = readFileSync(file, 'utf8').replace(/<a href="https:[^"]*">/g, ''); // except links
    expect(loads).not.toMatch(/(?:src|href|url)\s*[=(]\s*["']?https?:/);
  }
});

test('a link to the page has a preview for other sites', () => {
  const html = readFileSync(join(folder, 'index.html'), 'utf8');
  const tag = (name: string) =>
    new RegExp(`<meta (?:property|name)="${name}" content="([^"]*)"`)
      .exec(html)?.[1]
      .replaceAll('&amp;', '&');
  expect(tag('og:title')).toBe('Add & Norm, to see, touch and try');
  expect(tag('og:description')).toBe(tag('description'));
  expect(tag('twitter:card')).toBe('summary_large_image');
  const picture = readFileSync(join(folder, tag('og:image')!));
  const frame = picture.indexOf('ffc0', 0, 'hex'); // a JPEG's sizes stand after this mark
  const [height, width] = [5, 7].map((at) => String(picture.readUInt16BE(frame + at)));
  expect([width, height]).toEqual([tag('og:image:width'), tag('og:image:height')]);
  expect(picture.length).toBeLessThan(100_000);
});

test('a link is copied where the page has no clipboard, as on http, without answers', async () => {
  const page = await openPage('#quiz?qz.q1=b&an.gamma=2', {
    before: () => Object.defineProperty(navigator, 'clipboard', { value: undefined }),
  });
  const button = page.getByRole('button', { name: 'Copy link' });
  await page.waitForLoadState('networkidle'); // until the neighbouring chapters have their heights
  await page.locator('.contents a[aria-current]', { hasText: 'Quiz' }).waitFor();
  await button.focus();
  await page.keyboard.press('Enter');
  await page.getByText('Copied').waitFor();
  expect(await button.evaluate((element) => element === document.activeElement)).toBe(true);
  await page.evaluate(() => {
    const field = document.createElement('textarea');
    field.id = 'pasted';
    document.body.append(field);
    field.focus();
  });
  await page.keyboard.press('Control+v');
  expect(await page.locator('#pasted').inputValue()).toMatch(/#quiz\?an\.gamma=2$/);
});
