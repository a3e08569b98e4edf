// The languages of the page, and its texts in them.

import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parsePo } from '../plugins/po';
import { LANGUAGE_NAMES } from '../src/language/language';

export const offered = Object.keys(LANGUAGE_NAMES);

export function translation(language: string, text: string): string {
  if (language === 'en') return text;
  const file = fileURLToPath(new URL(`../src/locales/${language}.po`, import.meta.url));
  return parsePo(readFileSync(file, 'utf8')).find(({ id }) => id === text)!.forms[0];
}
