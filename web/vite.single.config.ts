// The tutorial as one file: `make tutorial`.

import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vite';
import { genesis, genesisText } from './plugins/genesis.ts';
import { layers } from './plugins/layers.ts';
import { catalogueOf, translatedLanguages } from './plugins/po.ts';
import { prerender } from './plugins/prerender.ts';
import { singleFile } from './plugins/single-file.ts';
import { woff2 } from './plugins/woff2.ts';
import { sources } from './vite.config.ts';

const built = fileURLToPath(new URL('../build/wasm/bin', import.meta.url));
const FONTS = /KaTeX_(Main-(Regular|Bold|Italic)|Math-Italic|Size[1-4]|AMS)/; // those in use

export default defineConfig({
  ...sources,
  publicDir: false,
  plugins: [
    genesis(),
    layers(),
    woff2(FONTS),
    prerender(sources),
    singleFile({
      'addnorm.wasm': () => readFile(`${built}/addnorm.wasm`),
      'lab.wasm': () => readFile(`${built}/lab.wasm`),
      genesis: genesisText,
      ...Object.fromEntries(
        translatedLanguages.map((name) => [`${name}.po`, () => catalogueOf(name)]),
      ),
    }),
    {
      name: 'embedded-files',
      enforce: 'pre',
      resolveId: (id) =>
        id === './files' || id.endsWith('/kernels/files')
          ? fileURLToPath(new URL('src/kernels/files-embedded.ts', import.meta.url))
          : undefined,
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
  worker: { format: 'iife' }, // file:// pages cannot load a blob: URL as a module
});
