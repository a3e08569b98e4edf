// Checks that the catalogues have every text of the page and of the library, in the order of the
// source files. `npm run messages` updates them.

import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { libraryMessages, messagesOf } from '../../plugins/messages';
import { type Entry, formatPo, parsePo } from '../../plugins/po';

const sources = fileURLToPath(new URL('..', import.meta.url));
const library = fileURLToPath(new URL('../../../src/', import.meta.url));
const fileOf = (language: string) => `${sources}locales/${language}.po`;

const PLURALS: Record<string, string> = {
  de: 'nplurals=2; plural=(n != 1);',
  es: 'nplurals=2; plural=(n != 1);',
  zh: 'nplurals=1; plural=0;',
};

test('each catalogue has every message', async () => {
  const messages = await allMessages();
  for (const [language, plurals] of Object.entries(PLURALS)) {
    const file = fileOf(language);
    const entries = inLanguage(messages, file, plurals);
    await expect(formatPo(language, plurals, entries)).toMatchFileSnapshot(file);
  }
});

/** The messages without duplicates, in the order of the files and of the positions in them. */
async function allMessages(): Promise<Entry[]> {
  const entries = new Map<string, Required<Entry>>();
  const add = (origin: string, id: string, plural = '', comments: string[] = []) => {
    const entry = entries.get(id) ?? { id, plural, forms: [], origins: [], comments };
    if (entry.plural !== plural) throw new Error(`${origin}: “${id}” has two plurals`);
    if (!entry.origins.includes(origin)) entry.origins.push(origin);
    entries.set(id, { ...entry, forms: plural ? ['', ''] : [''] });
  };
  for (const file of files(sources, /(?<!\.test)\.tsx?$/)) {
    const found = await messagesOf(readFileSync(`${sources}${file}`, 'utf8'), file);
    for (const { id, plural, comments } of found) add(`src/${file}`, id, plural, comments);
  }
  for (const file of files(library, /(?<!_test)\.cc$/)) {
    for (const id of libraryMessages(readFileSync(`${library}${file}`, 'utf8'))) add(file, id);
  }
  return [...entries.values()];
}

function files(folder: string, name: RegExp): string[] {
  const all = readdirSync(folder, { recursive: true, encoding: 'utf8' });
  return all.filter((file) => name.test(file)).sort();
}

/** The messages with the translations from the file. */
function inLanguage(messages: readonly Entry[], file: string, plurals: string): Entry[] {
  const text = existsSync(file) ? readFileSync(file, 'utf8') : '';
  const key = ({ id, plural = '' }: Entry) => `${id}|${plural}`;
  const known = new Map(parsePo(text).map((entry) => [key(entry), entry.forms]));
  const count = Number(/nplurals=(\d)/.exec(plurals)![1]);
  return messages.map((entry) => ({
    ...entry,
    forms: known.get(key(entry)) ?? Array(entry.plural ? count : 1).fill(''),
  }));
}
