// The tutorial as one file, opened without a server.

import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { hasSingleFile, singleFile } from './builds';
import { offered, translation } from './offered';
import { chapter, openPage } from './page';

// `make tutorial` writes the file; `make test` does so before the tests.
test.skipIf(!hasSingleFile).each(['', '#highway?hw.layers=6', '#lab', '#add-norm', '#model'])(
  'works by itself at “%s”',
  async (hash) => {
    const page = await openPage(hash, { file: singleFile });
    await page.getByText('It gets through.').waitFor();
    if (hash === '') {
      await page.getByRole('switch', { name: 'Norm' }).click();
      await page.getByText('It explodes.').waitFor();
    } else if (hash.startsWith('#highway')) {
      await chapter(page, 'highway').getByText('four stacks of 6 layers').waitFor();
    } else if (hash === '#lab') {
      await chapter(page, 'lab').locator('[data-verdict]').first().waitFor();
    } else if (hash === '#model') {
      await chapter(page, 'model').getByText('is not in this file').waitFor();
    } else {
      await chapter(page, 'add-norm').locator('.katex').first().waitFor();
    }
  },
);

test.skipIf(!hasSingleFile).each(offered)('has the language %s in itself', async (language) => {
  const page = await openPage(`?lang=${language}`, { file: singleFile });
  await page.getByText(translation(language, 'It gets through.')).waitFor();
});

test.skipIf(!hasSingleFile)('is below 2.25 MiB, and names nothing to load', () => {
  const html = readFileSync(singleFile, 'utf8');
  expect(Buffer.byteLength(html)).toBeLessThan(2.25 * 1024 ** 2);
  const elsewhere = /<(?:script|link|img)[^>]*(?:src|href)\s*=\s*"(?!data:)[^#"]/;
  const tags = html.replace(/(<script[^>]*>).*?<\/script>/gs, '$1');
  expect(elsewhere.exec(tags)?.[0].slice(0, 200)).toBeUndefined();
});
