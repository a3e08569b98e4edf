// The catalogue of the page's language. Modules with texts wait for it, so that a text may stand
// anywhere in them. catalogue-embedded.ts takes this file's place where the page is one file.

import { language } from './language';

/** The forms of each message; several where a number decides. */
export type Catalogue = Record<string, string[]>;

const catalogues = import.meta.glob<{ default: Catalogue }>('../locales/*.po');

/** English needs none. */
export const catalogue: Catalogue =
  language === 'en' ? {} : await catalogues[`../locales/${language}.po`]().then((m) => m.default);
