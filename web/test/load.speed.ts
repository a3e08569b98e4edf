// The page's load time and its cost, with files as hosts send them, on this machine and on a
// simulated slow phone. The figures are for reading; there are no limits.

import { fileURLToPath } from 'node:url';
import type { CDPSession, Page } from 'playwright-core';
import { afterAll, beforeAll, test } from 'vitest';
import { serveCompressed } from './compressed-server';
import { openPage } from './page';

const folder = process.env.TUTORIAL ?? fileURLToPath(new URL('../dist', import.meta.url));
const report = (what: string, value: string) => console.log(`${what.padEnd(52)} ${value}`);

let server: Awaited<ReturnType<typeof serveCompressed>>;
beforeAll(async () => {
  server = await serveCompressed(folder);
});
afterAll(() => server.stop());

interface Slowness {
  name: string;
  cpu: number;
  kilobits?: number;
}

/** A page that is about to load at this speed, its session, and the number of received bytes. */
async function prepared({ cpu, kilobits }: Slowness) {
  const blank = await openPage('', { address: server.address, before: watch, everything: true });
  const page = await blank.context().newPage();
  await page.addInitScript(watch);
  await blank.close();
  const session = await page.context().newCDPSession(page);
  const received = { bytes: 0 };
  await session.send('Network.enable');
  session.on('Network.loadingFinished', (e) => (received.bytes += e.encodedDataLength));
  await session.send('Network.setCacheDisabled', { cacheDisabled: true });
  await session.send('Emulation.setCPUThrottlingRate', { rate: cpu });
  if (kilobits) {
    const throughput = (kilobits * 1000) / 8;
    await session.send('Network.emulateNetworkConditions', {
      offline: false,
      latency: 150,
      downloadThroughput: throughput,
      uploadThroughput: throughput,
    });
  }
  return { page, session, received };
}

/** Runs in the page: records when the hero is computed, and the layout shift. */
function watch(): void {
  const state = { alive: 0, shift: 0 };
  Object.assign(window, { watched: state });
  new MutationObserver((_, observer) => {
    if (!document.querySelector('.hero-outcome strong')) return;
    observer.disconnect();
    state.alive = performance.now();
  }).observe(document, { childList: true, subtree: true });
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries() as (PerformanceEntry & {
      value: number;
      hadRecentInput: boolean;
    })[]) {
      if (!entry.hadRecentInput) state.shift += entry.value;
    }
  }).observe({ type: 'layout-shift', buffered: true });
}

const watched = (page: Page) =>
  page.evaluate(() => (window as unknown as { watched: { alive: number; shift: number } }).watched);

const SLOWNESSES: Slowness[] = [
  { name: 'this machine', cpu: 1 },
  { name: '4 times slower, 1.6 Mbit/s', cpu: 4, kilobits: 1600 },
];

test.each(SLOWNESSES)('the first screen: $name', async (slowness) => {
  const { page, received } = await prepared(slowness);
  await page.goto(`${server.address}/`);
  await page.waitForFunction(() => document.querySelector('.hero-outcome strong'));
  await page.waitForLoadState('networkidle');
  const { alive, shift } = await watched(page);
  report(`${slowness.name}: navigation to the hero, computed`, `${alive.toFixed(0)} ms`);
  report(`${slowness.name}: sent before an interaction`, `${kilobytes(received.bytes)} KB`);
  for (let i = 0; i < 60; ++i) {
    await page.mouse.wheel(0, 500);
    await page.waitForTimeout(100);
  }
  await page.waitForFunction(() => !document.querySelector('.chapter-room'));
  await page.waitForLoadState('networkidle');
  const { shift: later } = await watched(page);
  report(`${slowness.name}: layout shift, first screen`, shift.toFixed(4));
  report(`${slowness.name}: layout shift, scrolled to the end`, later.toFixed(4));
  report(`${slowness.name}: sent in all, with the lab`, `${kilobytes(received.bytes)} KB`);
});

const kilobytes = (bytes: number) => Math.round(bytes / 1000);

/** The memory and the nodes after a garbage collection. */
async function held(session: CDPSession): Promise<{ heap: number; nodes: number }> {
  await session.send('HeapProfiler.collectGarbage');
  const { metrics } = await session.send('Performance.getMetrics');
  const of = (name: string) => metrics.find((metric) => metric.name === name)!.value;
  return { heap: of('JSHeapUsedSize'), nodes: of('Nodes') };
}

test('160 changes of Layers in the highway', { timeout: 300_000 }, async () => {
  const page = await openPage('#highway', { address: server.address, everything: true });
  const session = await page.context().newCDPSession(page);
  await session.send('Performance.enable');
  const slider = page.locator('#highway').getByRole('slider', { name: 'Layers' });
  const change = async (times: number) => {
    for (let i = 0; i < times; ++i) {
      const layers = i % 2 ? 9 : 8;
      await slider.evaluate((input: HTMLInputElement, value) => {
        input.value = String(value);
        input.dispatchEvent(new Event('input', { bubbles: true }));
      }, layers);
      await page.locator('#highway').getByText(`four stacks of ${layers} layers`).waitFor();
    }
  };
  await change(20);
  await page.waitForFunction(() => !document.querySelector('.chapter-room'));
  await page.waitForTimeout(2000);
  const before = await held(session);
  await change(160);
  await page.waitForTimeout(1000);
  const after = await held(session);
  const growth = (key: 'heap' | 'nodes') => 100 * (after[key] / before[key] - 1);
  report(
    '160 changes: memory',
    `${(before.heap / 1e6).toFixed(1)} MB ${growth('heap').toFixed(1)} %`,
  );
  report('160 changes: nodes', `${before.nodes} ${growth('nodes').toFixed(1)} %`);
});
