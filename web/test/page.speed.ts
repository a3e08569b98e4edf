// The response times of the page: figures for reading, without limits. `make bench` runs them.

import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Locator, Page } from 'playwright-core';
import { test } from 'vitest';
import { chapter, openPage } from './page';

const median = (times: number[]) => times.sort((a, b) => a - b)[times.length >> 1];
const report = (what: string, times: number[], places = 1) =>
  console.log(`${what.padEnd(52)} ${median(times).toFixed(places)} ms`);

test('from navigation to chapter 1, which then answers', async () => {
  const times: number[] = [];
  const page = await openPage('', {
    before: () => {
      new MutationObserver((_, observer) => {
        if (!document.querySelector('#add-norm .bar-handle')) return;
        observer.disconnect();
        performance.mark('chapter 1');
      }).observe(document, { childList: true, subtree: true });
    },
  });
  for (let i = 0; i < 9; ++i) {
    await page.reload();
    await page.waitForFunction(() => performance.getEntriesByName('chapter 1').length > 0);
    times.push(await page.evaluate(() => performance.getEntriesByName('chapter 1')[0].startTime));
  }
  report('navigation to chapter 1', times, 0);
});

/** The time from the change of a control until a table cell has changed and is rendered. */
async function answerTimes(page: Page, control: Locator, cell: Locator, values: string[]) {
  await control.evaluate((input) => input.setAttribute('data-changed', ''));
  await cell.evaluate((td) => td.setAttribute('data-watched', ''));
  return page.evaluate(async (turns) => {
    const input = document.querySelector('[data-changed]') as HTMLInputElement;
    const watched = document.querySelector('[data-watched]')!;
    input.removeAttribute('data-changed');
    watched.removeAttribute('data-watched');
    const times: number[] = [];
    for (let i = 0; i < 100; ++i) {
      const changed = new Promise<void>((done) => {
        const observer = new MutationObserver(() => {
          observer.disconnect();
          done();
        });
        observer.observe(watched, { characterData: true, childList: true, subtree: true });
      });
      const start = performance.now();
      if (input.getAttribute('role') === 'slider') {
        input.dispatchEvent(new KeyboardEvent('keydown', { key: turns[i % 2], bubbles: true }));
      } else {
        input.value = turns[i % 2];
        input.dispatchEvent(new Event('input', { bubbles: true }));
      }
      await changed;
      times.push(performance.now() - start);
      await new Promise(requestAnimationFrame);
    }
    return times;
  }, values);
}

test('a change, computed and redrawn', async () => {
  const page = await openPage('#add-norm?st.x=512-features', { everything: true });
  const [first, second] = [chapter(page, 'add-norm'), chapter(page, 'step-by-step')];
  const output = (scope: Locator) => scope.locator('tr[data-vector="output"] td').first();
  const gamma = first.getByRole('slider', { name: 'Gamma (γ)' });
  const bar = first.getByRole('slider', { name: 'x 1', exact: true });
  const scale = second.getByRole('slider', { name: 'Scale γ' });
  const keys = ['ArrowUp', 'ArrowDown'];
  report('a move of γ in chapter 1', await answerTimes(page, gamma, output(first), ['2', '1']), 2);
  report('a move of a bar of x in chapter 1', await answerTimes(page, bar, output(first), keys), 2);
  const wide = await answerTimes(page, scale, output(second), ['2', '1']);
  report('a move of γ over 512 features in chapter 2', wide, 2);
});

/** How long each frame takes while a mouse drags the handle up and down. */
async function frameTimes(page: Page, handle: Locator) {
  await handle.scrollIntoViewIfNeeded();
  const box = (await handle.boundingBox())!;
  const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
  await page.mouse.move(x, y);
  await page.mouse.down();
  const times = page.evaluate(
    () =>
      new Promise<number[]>((done) => {
        const all: number[] = [];
        let last = performance.now();
        const frame = (now: number) => {
          all.push(now - last);
          last = now;
          if (all.length < 250) requestAnimationFrame(frame);
          else done(all.slice(2));
        };
        requestAnimationFrame(frame);
      }),
  );
  let ended = false;
  times.then(() => (ended = true));
  for (let i = 0; !ended; ++i) {
    await page.mouse.move(x + 10 * Math.sin(i / 9), y + 40 * Math.sin(i / 11));
  }
  await page.mouse.up();
  return times;
}

test('frames while something is dragged', async () => {
  const page = await openPage('#add-norm', { everything: true });
  await page.waitForTimeout(5000); // until every chapter is there
  const handles = {
    'a bar of x': chapter(page, 'add-norm')
      .getByRole('slider', { name: 'x 1', exact: true })
      .first(),
    'γ in chapter 1': chapter(page, 'add-norm').getByRole('slider', { name: 'Gamma (γ)' }),
    'a point in chapter 3': chapter(page, 'geometry').locator('svg [role=slider]').first(),
  };
  for (const [name, handle] of Object.entries(handles)) {
    const times = await frameTimes(page, handle);
    const quick = times.filter((time) => time < 20).length / times.length;
    console.log(
      `${`frames below 20 ms, dragging ${name}`.padEnd(52)} ${(100 * quick).toFixed(1)} %`,
    );
  }
});

test('a step of training, in a worker and natively', async () => {
  const program = fileURLToPath(new URL('../../build/release/bin/addnorm', import.meta.url));
  const steps = 60;
  const study = (count: number) => {
    const out = mkdtempSync(join(tmpdir(), 'addnorm-'));
    const flags = `study --placement post --layers 12 --width 32 --heads 2 --context 32 --batch 8
      --seeds 1 --warm-up ${steps / 2} --steps ${count} --out ${out}`.split(/\s+/);
    const env = { ...process.env, OMP_NUM_THREADS: '1' };
    const start = performance.now();
    execFileSync(program, flags, { stdio: 'ignore', env });
    rmSync(out, { recursive: true });
    return performance.now() - start;
  };
  // With and without warm-up, hence ÷ 2. The difference cancels the time outside of steps.
  const native = () => (study(2 * steps) - study(steps)) / (2 * steps);
  const inWorkers = async () => {
    const page = await openPage(`#placement?pl.steps=${steps}`, { everything: true });
    const scope = chapter(page, 'placement');
    await scope.getByRole('button', { name: 'Start training' }).click();
    await scope.locator('[data-verdict="trained"]').waitFor();
    const words = await scope.getByText(/ms a step/).textContent();
    await page.context().close();
    return [...words!.matchAll(/(\d+)(?= and| ms a step)/g)].map((match) => Number(match[1]));
  };
  const [ours, theirs]: number[][] = [[], []];
  for (let i = 0; i < 3; ++i) {
    theirs.push(native());
    ours.push(...(await inWorkers()));
  }
  report('a step of training in the page, two at a time', ours);
  report('a step of training natively, one thread', theirs);
});
