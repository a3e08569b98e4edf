// Checks that each offered language has every text, and that translations keep placeholders.

import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { runInNewContext } from 'node:vm';
import { describe, expect, test } from 'vitest';
import { parsePo, translatedLanguages } from '../../plugins/po';
import { foreignNumbers } from '../../test/foreign-numbers';
import { LANGUAGE_NAMES } from './language';

const web = fileURLToPath(new URL('../..', import.meta.url));
const files = readdirSync(`${web}src/locales`);

/** The language that public/first.js chooses for an address and a browser's languages. */
function chosen(search: string, languages: string[]) {
  const root = { lang: '', dataset: {} as Record<string, string> };
  runInNewContext(readFileSync(`${web}public/first.js`, 'utf8'), {
    URLSearchParams,
    addEventListener: () => {},
    location: { search },
    navigator: { languages },
    document: { documentElement: root, currentScript: { src: '' } },
    localStorage: { getItem: () => null },
    matchMedia: () => ({ matches: false }),
  });
  return root.lang;
}

describe('the language', () => {
  const offered = Object.keys(LANGUAGE_NAMES);
  test.each(offered)('%s is the one that the address names, else the browser’s first', (name) => {
    expect(chosen(`?lang=${name}`, ['en'])).toBe(name);
    expect(chosen('', ['xx', `${name}-XX`, 'en'])).toBe(name);
    expect(chosen('?lang=xx', [name.toUpperCase()])).toBe(name);
  });
  test('is English where there is no other', () => {
    expect(chosen('?lang=xx', [])).toBe('en');
    expect(offered[0]).toBe('en');
  });
  test.each(translatedLanguages)('%s is chosen only if the menu offers it', (name) => {
    expect(chosen(`?lang=${name}`, [])).toBe(offered.includes(name) ? name : 'en');
  });
  test.each(offered.slice(1))('%s is complete', (name) => {
    const entries = parsePo(readFileSync(`${web}src/locales/${name}.po`, 'utf8'));
    const missing = entries.filter(({ forms }) => forms.length === 0 || forms.includes(''));
    expect(missing.map(({ id }) => id)).toEqual([]);
  });
});

/** The placeholders of a message, sorted. */
const places = (message: string) => (message.match(/\{\w+\}|<\/?\d+\/?>/g) ?? []).sort();

test.each(files)('%s keeps the values and elements of each text', (file) => {
  const text = readFileSync(`${web}src/locales/${file}`, 'utf8');
  for (const { id, plural, forms } of parsePo(text)) {
    for (const form of forms.filter(Boolean)) {
      const expected = plural ? [places(id), places(plural)] : [places(id)];
      expect(expected, form).toContainEqual(places(form));
    }
  }
});

const withComma = files.filter((file) =>
  (0.5).toLocaleString(file.replace('.po', '')).includes(','),
);

test.each(withComma)('%s has decimal commas', (file) => {
  const entries = parsePo(readFileSync(`${web}src/locales/${file}`, 'utf8'));
  expect(foreignNumbers(entries.flatMap(({ forms }) => forms))).toEqual([]);
});
