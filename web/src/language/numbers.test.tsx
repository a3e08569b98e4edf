// Renders the page in German, and finds numbers with a decimal point.

import { renderToString } from 'preact-render-to-string';
import { beforeAll, expect, test, vi } from 'vitest';
import { foreignNumbers } from '../../test/foreign-numbers';
import { App } from '../app';
import { chapters } from '../chapters';
import { loadKernels, setKernels } from '../kernels/current';
import { plainText } from '../ui/numbers';
import { decimalComma } from './language';

vi.hoisted(() => {
  const measureText = (text: string) => ({ width: 7 * text.length });
  const createElement = () => ({ getContext: () => ({ measureText }) });
  vi.stubGlobal('document', { documentElement: { lang: 'de' }, createElement });
});
vi.mock('./catalogue', async () => {
  const { catalogueOf } = await import('../../plugins/po');
  return { catalogue: JSON.parse(await catalogueOf('de')) };
});

beforeAll(async () => setKernels(await loadKernels()));

const SPOKEN = /(?:aria-label|aria-valuetext|title)="([^"]*)"/g;

/** The texts of a rendered page that are seen or spoken, without code. */
function textsOf(html: string): string[] {
  const words = html.replace(/<(code|pre|textarea)\b[^]*?<\/\1>/g, '');
  const spoken = [...words.matchAll(SPOKEN)].map(([, text]) => text);
  return [...words.split(/<[^>]*>/), ...spoken];
}

test('the language has a decimal comma', () => expect(decimalComma).toBe(true));

test.each(chapters.map(({ source }) => [source.id, source] as const))(
  '%s has decimal commas',
  async (_, source) => {
    const { View } = await source.load();
    const texts = textsOf(renderToString(<View />));
    expect(texts.length).toBeGreaterThan(20);
    expect(foreignNumbers(texts)).toEqual([]);
  },
);

test('the frame of the page has decimal commas', () => {
  expect(foreignNumbers(textsOf(renderToString(<App />)))).toEqual([]);
});

test.each([
  ['−0,5', '-0.5'],
  ['1,234568e8', '1.234568e8'],
  ['1,5e−7', '1.5e-7'],
  ['3', '3'],
  ['x, y', 'x, y'],
  ['NaN', 'NaN'],
])('a saved table has %s as %s', (cell, saved) => expect(plainText(cell)).toBe(saved));
