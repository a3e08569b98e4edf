// The page as a whole: what every chapter shares.

import { expect, test } from 'vitest';
import { openPage } from './page';

test('lists its eight chapters, and each entry goes to its chapter', async () => {
  const page = await openPage();
  const links = page.getByRole('navigation', { name: 'Chapters' }).getByRole('link');
  expect(await links.count()).toBe(8);
  await links.nth(3).click();
  expect(new URL(page.url()).hash).toBe('#axes');
});
