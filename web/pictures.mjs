// Takes the pictures of the chapters for the documentation: npm run pictures, after make page.

import { spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { chromium } from 'playwright-core';

/** What each picture shows: the page's state, what stands at its top, and the theme. */
const PICTURES = {
  'add-norm': ['an.unstable=1', '.an-stages', 'dark'],
  'step-by-step': ['', '.st-cards', 'light'],
  geometry: ['ge.step=output', '.figure', 'light'],
  highway: ['', '.controls', 'dark'],
  placement: ['', '.placement-board', 'light'],
  lanes: ['ln.row=mhc', '.lanes-step', 'dark'],
  axes: ['ax.kind=group', '.controls', 'light'],
  backward: ['', '.controls', 'light'],
  block: ['', '.controls', 'dark'],
  model: ['', '.charts', 'light'],
  quiz: ['', '.quiz-question', 'light'],
  lab: ['', '.lab-figure', 'dark'],
};
const SIZE = { width: 1280, height: 800 };
const file = (path) => fileURLToPath(new URL(`../${path}`, import.meta.url));

const server = spawn(file('build/release/bin/addnorm'), ['serve', '--port', '0']);
const [address] = await new Promise((resolve) =>
  server.stdout.on('data', (line) => resolve(/http:\S+/.exec(line))),
);
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium-headless-shell',
  args: ['--no-sandbox'],
});
for (const [chapter, [state, top, theme]] of Object.entries(PICTURES)) {
  const context = await browser.newContext({
    viewport: SIZE,
    colorScheme: theme,
    reducedMotion: 'reduce',
  });
  const page = await context.newPage();
  await page.goto(`${address}/#${chapter}?${state}`);
  const shown = page.locator(`#${chapter} ${top}`).first();
  await shown.waitFor();
  await page.waitForTimeout(6000); // until every chapter is there, and workers have answered
  await shown.evaluate((element) => {
    const { height } = document.querySelector('.toolbar').getBoundingClientRect(); // it sticks
    scrollBy(0, element.getBoundingClientRect().top - height - 24);
  });
  await page.waitForTimeout(3000);
  const session = await context.newCDPSession(page);
  const { data } = await session.send('Page.captureScreenshot', { format: 'webp', quality: 85 });
  writeFileSync(file(`docs/images/${chapter}.webp`), Buffer.from(data, 'base64'));
  await context.close();
}
await browser.close();
server.kill();
