import { createHash } from 'node:crypto';
import type { Plugin } from 'vite';

/** Allows the scripts that stand in the page itself, by their hashes, in its policy. */
export function earlyScripts(): Plugin {
  return {
    name: 'early-scripts',
    transformIndexHtml: {
      order: 'post',
      handler: (html) => {
        const hashes = [...html.matchAll(/<script>(.*?)<\/script>/gs)].map(
          ([, text]) => ` 'sha256-${createHash('sha256').update(text).digest('base64')}'`,
        );
        return html.replace("script-src 'self'", `script-src 'self'${hashes.join('')}`);
      },
    },
  };
}
