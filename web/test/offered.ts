// The languages that the page offers, and what its texts are in them.

import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parsePo } from '../plugins/po';

const read = (path: string) =>
  readFileSync(fileURLToPath(new URL(`../${path}`, import.meta.url)), 'utf8');

const [, list] = /LANGUAGES = \[(.*?)\]/.exec(read('public/first.js'))!;
export const offered = list.replace(/[' ]/g, '').split(',');

export function translation(language: string, text: string): string {
  if (language === 'en') return text;
  return parsePo(read(`src/locales/${language}.po`)).find(({ id }) => id === text)!.forms[0];
}
