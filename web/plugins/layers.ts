import { readdirSync } from 'node:fs';
import { dirname, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Plugin } from 'vite';

const web = fileURLToPath(new URL('..', import.meta.url));

/** The folders that have a style sheet. If two sheets style the same element, the later folder wins. */
const FOLDERS = [
  'node_modules/katex/dist',
  'src',
  'src/hero',
  'src/glossary',
  'src/runs',
  ...readdirSync(`${web}src/chapters`, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => `src/chapters/${name}`),
  'src/embed',
  'src/present',
  'src/handout',
];

const layerOf = (folder: string) => folder.replace(/\W/g, '-');

/** The names of all layers, the weakest first. */
export const LAYERS = FOLDERS.map(layerOf);

/** Puts each style sheet into a cascade layer of its own. Without layers, the order of two rules of
 * equal specificity would be the order in which a build happens to load their sheets. */
export function layers(): Plugin {
  return {
    name: 'layers',
    enforce: 'pre',
    transform(css, id) {
      const file = relative(web, id.split('?')[0]);
      if (!file.endsWith('.css')) return;
      const folder = dirname(file);
      if (!FOLDERS.includes(folder)) this.error(`${file} is in no folder of plugins/layers.ts`);
      return `@layer ${LAYERS.join()};\n@layer ${layerOf(folder)} {\n${css}\n}`;
    },
  };
}
