// `make site`: tutorial and documentation below a sub-path of a plain static server.

import { createReadStream, existsSync, statSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { testsOfControls, testsOfLooks } from './builds';
import { chapter, openPage, type PageOptions } from './page';

const folder = fileURLToPath(new URL('../../build/site', import.meta.url));
const TYPES: Record<string, string> = {
  '.html': 'text/html',
  '.js': 'text/javascript',
  '.css': 'text/css',
  '.svg': 'image/svg+xml',
};

/** A server that only knows files and their types. */
const server = createServer((request, response) => {
  const path = new URL(request.url!, 'http://x').pathname;
  const file = join(folder, path.replace(/^\/deep\/down\//, '/').replace(/\/$/, '/index.html'));
  const found = path.startsWith('/deep/down/') && existsSync(file) && statSync(file).isFile();
  response.writeHead(found ? 200 : 404, {
    'Content-Type': TYPES[extname(file)] ?? 'application/octet-stream',
  });
  if (found) createReadStream(file).pipe(response);
  else response.end();
});

describe.skipIf(!existsSync(folder))('the site', () => {
  let address = '';
  beforeAll(async () => {
    await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
    address = `http://127.0.0.1:${(server.address() as AddressInfo).port}/deep/down`;
  });
  afterAll(() => void server.close());

  test('leads from its first page to the tutorial, which computes', async () => {
    const page = await openPage('', { address, heading: 'addnorm' });
    await page.getByRole('link', { name: 'The tutorial', exact: true }).click();
    await page.getByText('It gets through.').waitFor();
  });

  test('leads to the documentation', async () => {
    const expected = /reading 'content'/; // a known error of furo on pages without contents
    const page = await openPage('', { address, heading: 'addnorm', expected });
    await page.getByRole('link', { name: 'The documentation' }).click();
    await page.getByRole('heading', { level: 1 }).waitFor();
    expect(page.url()).toContain('/deep/down/docs/index.html');
  });

  describe.each([
    ['tutorial', 'tutorial/'],
    ['one file', 'addnorm-tutorial.html'],
  ])('the %s', (_, path) => {
    const open = (hash = '', options: PageOptions = {}) =>
      openPage(`${path}${hash}`, { ...options, address });
    testsOfControls(open);
    testsOfLooks(open);
  });

  test('has the tutorial as one file', async () => {
    const page = await openPage('addnorm-tutorial.html#highway?hw.layers=6', { address });
    await chapter(page, 'highway').getByText('four stacks of 6 layers').waitFor();
  });
});
