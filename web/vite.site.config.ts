// Tutorial and documentation as one static folder: `make site`, which builds both first.

import { cp, writeFile } from 'node:fs/promises';
import { basename } from 'node:path';
import { fileURLToPath } from 'node:url';
import { defineConfig, type Plugin } from 'vite';
import { compressFolder } from './plugins/compress.ts';

const root = fileURLToPath(new URL('..', import.meta.url));
const outDir = `${root}build/site`;

const PARTS = {
  tutorial: `${root}web/dist`,
  'addnorm-tutorial.html': `${root}build/addnorm-tutorial.html`,
  docs: `${root}build/docs/html`,
};

/** Copies the parts of the site beside the first page, and compresses the
 * files that are not yet compressed. */
function parts(): Plugin {
  return {
    name: 'parts',
    async writeBundle() {
      for (const [name, from] of Object.entries(PARTS)) {
        const isSeen = (file: string) => !basename(file).startsWith('.'); // no Sphinx metadata
        await cp(from, `${outDir}/${name}`, { recursive: true, filter: isSeen });
      }
      await writeFile(`${outDir}/.nojekyll`, ''); // GitHub Pages would ignore _static
      await compressFolder(outDir);
    },
  };
}

export default defineConfig({
  root: `${root}web/site`,
  base: './',
  publicDir: false,
  plugins: [parts()],
  build: { outDir, emptyOutDir: true },
});
