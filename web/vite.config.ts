import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';

const root = fileURLToPath(new URL('..', import.meta.url));

const inNode = { testTimeout: 60_000, hookTimeout: 60_000 }; // the machine may be busy

const inBrowser = {
  globalSetup: 'test/serve.ts',
  testTimeout: 120_000,
  hookTimeout: 60_000,
  retry: 1, // a browser on a loaded machine may miss a moment
};

export default defineConfig({
  base: './', // so that web/dist works from any folder of any server
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
