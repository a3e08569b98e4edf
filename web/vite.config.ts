import { fileURLToPath } from 'node:url';
import type { UserConfig } from 'vite';
import { defineConfig } from 'vitest/config';
import { compress } from './plugins/compress.ts';
import { genesis } from './plugins/genesis.ts';
import { layers } from './plugins/layers.ts';
import { catalogues } from './plugins/po.ts';
import { preloadKernels, prerender } from './plugins/prerender.ts';
import { sharing } from './plugins/sharing.ts';
import { woff2 } from './plugins/woff2.ts';

const root = fileURLToPath(new URL('..', import.meta.url));

const inNode = { testTimeout: 60_000, hookTimeout: 60_000 }; // the machine may be busy

const inBrowser = {
  globalSetup: 'test/serve.ts',
  testTimeout: 120_000,
  hookTimeout: 60_000,
  retry: 1, // on a loaded machine, timing in a browser may fail
};

/** The configuration that all builds share. */
export const sources: UserConfig = {
  plugins: [genesis(), layers(), woff2()],
  resolve: {
    alias: [
      { find: /^#root/, replacement: root.slice(0, -1) },
      { find: /^#lab/, replacement: `${root}build/wasm/bin/lab.wasm` },
    ],
  },
  server: { fs: { allow: [root] } },
};

export default defineConfig({
  base: './', // so that web/dist works from any folder of any server
  ...sources,
  plugins: [
    sources.plugins,
    prerender(sources),
    preloadKernels(),
    sharing(),
    catalogues(),
    compress(),
  ],
  build: {
    target: 'es2022',
    assetsInlineLimit: 0,
    chunkSizeWarningLimit: 1000,
    license: { fileName: 'third-party-notices.md' },
    rolldownOptions: { input: ['index.html', 'runs.html'] },
  },
  worker: { format: 'es' },
  test: {
    maxWorkers: 2, // a test waits for its page about as long as it computes
    tags: [{ name: 'long', description: 'every width, theme and language: of `make test-all`' }],
    ...(process.env.ADDNORM_LONG_TESTS ? {} : { tagsFilter: ['!long'] }),
    projects: [
      { extends: true, test: { ...inNode, name: 'unit', include: ['src/**/*.test.{ts,tsx}'] } },
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
      {
        extends: true,
        test: { ...inBrowser, name: 'pictures', include: ['test/pictures.ts'] },
      },
    ],
  },
});
