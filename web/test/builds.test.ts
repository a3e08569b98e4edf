// Runs the tests of every build on the two builds that `make test` makes.

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { LAYERS } from '../plugins/layers';
import { hasSingleFile, singleFile, testsOfControls, testsOfLooks } from './builds';
import { openPage, type PageOptions } from './page';

const folder = process.env.TUTORIAL ?? fileURLToPath(new URL('../dist', import.meta.url));

const openFile = (hash?: string, options?: PageOptions) =>
  openPage(hash, { ...options, file: singleFile });

/** The layers of each style sheet, in the order of their first mention. A rule outside of all
 * layers, which would override them, appears as its text. */
async function layersOf(sheets: string[]): Promise<string[][]> {
  const page = await openPage();
  const names = await page.evaluate(
    (sheets) =>
      sheets.map((css) => {
        const sheet = new CSSStyleSheet();
        sheet.replaceSync(css);
        return [...sheet.cssRules].flatMap((rule) => {
          if (rule instanceof CSSLayerStatementRule) return [...rule.nameList];
          return rule instanceof CSSLayerBlockRule ? rule.name : rule.cssText;
        });
      }),
    sheets,
  );
  return names.map((all) => [...new Set(all)]);
}

describe('as it is served', () => {
  testsOfControls(openPage);
  const assets = join(folder, 'assets');
  test('each style sheet orders all layers, and has nothing outside them', async () => {
    const files = readdirSync(assets).filter((file) => file.endsWith('.css'));
    const found = await layersOf(files.map((file) => readFileSync(join(assets, file), 'utf8')));
    expect(found.length).toBeGreaterThan(10);
    for (const names of found) expect(names).toEqual(LAYERS);
  });
});

describe.skipIf(!hasSingleFile)('as one file', () => {
  testsOfControls(openFile);
  testsOfLooks(openFile);
  test('its style sheet orders all layers, and has nothing outside them', async () => {
    const [, css] = /<style>(.*?)<\/style>/s.exec(readFileSync(singleFile, 'utf8'))!;
    expect(await layersOf([css])).toEqual([LAYERS]);
  });
});
