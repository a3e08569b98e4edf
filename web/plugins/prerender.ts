import { createServer, type Plugin, type UserConfig } from 'vite';

/** Renders the first screen into index.html at build time. */
export function prerender(config: UserConfig): Plugin {
  return {
    name: 'prerender',
    apply: 'build',
    transformIndexHtml: {
      order: 'post',
      async handler(html, { filename }) {
        if (!filename.endsWith('/index.html')) return html;
        const page = `<div id="app" data-prerendered>${await render(config)}</div>`;
        return html.replace('<div id="app"></div>', () => page);
      },
    },
  };
}

/** Preloads the kernels together with the script. */
export function preloadKernels(): Plugin {
  return {
    name: 'preload-kernels',
    apply: 'build',
    transformIndexHtml: {
      order: 'post',
      handler(_, { filename, bundle = {} }) {
        const module = Object.keys(bundle).find((file) => /addnorm-.*\.wasm$/.test(file));
        if (!filename.endsWith('/index.html') || module === undefined) return [];
        const attrs = { rel: 'preload', href: `./${module}`, as: 'fetch', crossorigin: true };
        return [{ tag: 'link', attrs, injectTo: 'head' }];
      },
    },
  };
}

async function render(config: UserConfig): Promise<string> {
  const server = await createServer({
    ...config,
    configFile: false,
    appType: 'custom',
    logLevel: 'warn',
    server: { ...config.server, middlewareMode: true, hmr: false, watch: null },
    optimizeDeps: { noDiscovery: true },
  });
  try {
    return (await server.ssrLoadModule('/src/prerender.tsx')).prerender();
  } finally {
    await server.close();
  }
}
