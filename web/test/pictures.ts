// Takes the pictures of the chapters for the documentation: npm run pictures, after make page.

import { writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { test } from 'vitest';
import { chapter, openPage, type PageOptions } from './page';

/** The pictures: the page's state, the element at the top, and the theme. */
const PICTURES: Record<string, [state: string, top: string, theme: PageOptions['theme']]> = {
  'add-norm': ['an.unstable=1', '.an-stages', 'dark'],
  'step-by-step': ['', '.st-cards', 'light'],
  geometry: ['ge.step=output', '.figure', 'light'],
  highway: ['', '.controls', 'dark'],
  placement: ['', '.placement-board', 'light'],
  lanes: ['ln.row=mhc', '.lanes-step', 'dark'],
  axes: ['ax.kind=group', '.figure', 'light'],
  backward: ['', '.controls', 'light'],
  block: ['', '.controls', 'dark'],
  model: ['', '.charts', 'light'],
  quiz: ['', '.quiz-question', 'light'],
  lab: ['', '.lab-figure', 'dark'],
};

test.each(Object.entries(PICTURES))('%s', async (id, [state, top, theme]) => {
  const page = await openPage(`#${id}?${state}`, { theme, height: 800, everything: true });
  const shown = chapter(page, id).locator(top).first();
  await shown.waitFor();
  await page.waitForTimeout(6000); // until every chapter is loaded, and workers are done
  await shown.evaluate((element) => {
    const { height } = document.querySelector('.toolbar')!.getBoundingClientRect(); // sticky
    scrollBy(0, element.getBoundingClientRect().top - height - 24);
  });
  await page.waitForTimeout(3000);
  const session = await page.context().newCDPSession(page);
  const { data } = await session.send('Page.captureScreenshot', { format: 'webp', quality: 85 });
  const file = fileURLToPath(new URL(`../../docs/images/${id}.webp`, import.meta.url));
  writeFileSync(file, Buffer.from(data, 'base64'));
});

test('the preview that other sites show with a link', async () => {
  const page = await openPage('', { theme: 'dark', width: 1200, height: 630 });
  await page.locator('.hero-outcome strong').waitFor();
  await page.addStyleTag({ content: PREVIEW });
  await page.waitForTimeout(1000);
  const path = fileURLToPath(new URL('../public/preview.jpg', import.meta.url));
  await page.screenshot({ path, quality: 66, clip: { x: 0, y: 0, width: 1200, height: 630 } });
});

/** The hero without its controls, as high as the preview. */
const PREVIEW = `
  .hero-head > :not(.hero-words), .hero-title a, .hero-words p, .hero-foot, .hero-place, details { display: none }
  .hero { height: 630px }
  .hero-lanes { height: 26rem }`;
