// The tutorial as one file: `make tutorial`.

import { readdirSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vite';
import { genesis, genesisText } from './plugins/genesis.ts';
import { catalogueOf, po } from './plugins/po.ts';
import { prerender } from './plugins/prerender.ts';
import { type Embedded, singleFile } from './plugins/single-file.ts';
import { woff2 } from './plugins/woff2.ts';
import { sources } from './vite.config.ts';

const built = fileURLToPath(new URL('../build/wasm/bin', import.meta.url));
const FONTS = /KaTeX_(Main-(Regular|Bold|Italic)|Math-Italic|Size[1-4]|AMS)/; // that formulas here have

const sourceFile = (path: string) => fileURLToPath(new URL(`src/${path}`, import.meta.url));

/** Of each language but English. */
function catalogues(): Embedded {
  const files = readdirSync(sourceFile('locales')).filter((file) => file !== 'en.po');
  const read = async (file: string) =>
    catalogueOf(await readFile(sourceFile(`locales/${file}`), 'utf8'));
  return Object.fromEntries(files.map((file) => [file, () => read(file)]));
}

export default defineConfig({
  ...sources,
  publicDir: false,
  plugins: [
    genesis(),
    po(),
    woff2(FONTS),
    prerender(sources),
    singleFile({
      'addnorm.wasm': () => readFile(`${built}/addnorm.wasm`),
      'lab.wasm': () => readFile(`${built}/lab.wasm`),
      genesis: genesisText,
      ...catalogues(),
    }),
    {
      name: 'embedded-files',
      enforce: 'pre',
      resolveId(id) {
        if (id === './files' || id.endsWith('/kernels/files')) {
          return sourceFile('kernels/files-embedded.ts');
        }
        return id === './catalogue' ? sourceFile('language/catalogue-embedded.ts') : undefined;
      },
    },
  ],
  build: {
    target: 'es2022',
    outDir: '../build/tutorial',
    emptyOutDir: true,
    assetsInlineLimit: (file) => file.endsWith('.woff2'),
    cssCodeSplit: false,
    modulePreload: false,
    rolldownOptions: { input: 'index.html', output: { codeSplitting: false } },
  },
  worker: { format: 'iife' }, // a module of blob: is loaded from no page of file://
});
