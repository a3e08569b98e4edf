// Catalogues of messages in gettext's format.

import { readdirSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import type { Plugin } from 'vite';

export interface Entry {
  id: string;
  plural?: string; // the message for more than one
  forms: string[]; // the translations: '' if missing; several for a plural
  origins?: string[]; // files
  comments?: string[];
}

const folder = fileURLToPath(new URL('../src/locales', import.meta.url));

/** The languages that have a catalogue: all but English. */
export const translatedLanguages = readdirSync(folder).map((file) => file.replace('.po', ''));

/** Adds the catalogue of each language to the page, for example `locales/de.js` for German. */
export function catalogues(): Plugin {
  const scriptOf = async (language: string) =>
    `globalThis.catalogue=${await catalogueOf(language)}`;
  return {
    name: 'catalogues',
    configureServer({ middlewares }) {
      middlewares.use('/locales', async ({ url }, response) => {
        response.setHeader('Content-Type', 'text/javascript');
        response.end(await scriptOf(url!.slice(1).replace('.js', '')));
      });
    },
    async generateBundle() {
      for (const language of translatedLanguages) {
        const source = await scriptOf(language);
        this.emitFile({ type: 'asset', fileName: `locales/${language}.js`, source });
      }
    },
  };
}

/** The translated messages with their forms, as JSON. */
export async function catalogueOf(language: string): Promise<string> {
  const entries = parsePo(await readFile(`${folder}/${language}.po`, 'utf8'));
  const translated = entries.filter(({ forms }) => forms.every(Boolean));
  return JSON.stringify(Object.fromEntries(translated.map(({ id, forms }) => [id, forms])));
}

/** Parses a .po file. Comments and the header are left out. */
export function parsePo(text: string): Entry[] {
  return text
    .split(/\n\s*\n/)
    .map(fieldsOf)
    .filter(({ msgid }) => msgid)
    .map(({ msgid, msgid_plural, ...forms }) => ({
      id: msgid,
      ...(msgid_plural && { plural: msgid_plural }),
      forms: Object.values(forms),
    }));
}

function fieldsOf(block: string): Record<string, string> {
  const fields: Record<string, string> = {};
  let field = '';
  for (const line of block.split('\n')) {
    const [, keyword, quoted] = /^(msg[\w[\]]+)?\s*(".*")$/.exec(line) ?? [];
    if (quoted === undefined) continue;
    field = keyword ?? field;
    fields[field] = (fields[field] ?? '') + JSON.parse(quoted);
  }
  return fields;
}

export function formatPo(language: string, plurals: string, entries: readonly Entry[]): string {
  const head = [
    'msgid ""',
    'msgstr ""',
    `"Language: ${language}\\n"`,
    '"Content-Type: text/plain; charset=UTF-8\\n"',
    `"Plural-Forms: ${plurals}\\n"`,
  ];
  return [head, ...entries.map(linesOf)].map((lines) => `${lines.join('\n')}\n`).join('\n');
}

function linesOf({ id, plural, forms, origins = [], comments = [] }: Entry): string[] {
  const form = (text: string, i: number) =>
    `msgstr${plural ? `[${i}]` : ''} ${JSON.stringify(text)}`;
  return [
    ...comments.map((comment) => `#. ${comment}`),
    ...origins.map((origin) => `#: ${origin}`),
    `msgid ${JSON.stringify(id)}`,
    ...(plural ? [`msgid_plural ${JSON.stringify(plural)}`] : []),
    ...forms.map(form),
  ];
}
