import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { gzipSync } from 'node:zlib';
import type { Plugin, Rolldown } from 'vite';

/** What the page finds in itself: a file for each id. */
export type Embedded = Record<string, () => Promise<string | Uint8Array>>;

/** Puts script, styles and what is embedded into the page, whose policy then allows only these. */
export function singleFile(embedded: Embedded): Plugin {
  return {
    name: 'single-file',
    enforce: 'post',
    generateBundle: {
      order: 'post', // after Vite's own
      async handler(_, bundle) {
        const files = Object.values(bundle);
        const of = (end: string) => files.filter(({ fileName }) => fileName.endsWith(end));
        const [page] = of('.html') as Rolldown.OutputAsset[];
        const styles = of('.css').map((file) => (file as Rolldown.OutputAsset).source);
        const script = of('.js').map((file) => (file as Rolldown.OutputChunk).code);
        if (script.length !== 1) throw new Error(`${script.length} scripts are not one`);
        const code = script[0].replaceAll('</script', '<\\/script').replaceAll('<!--', '<\\!--');
        const icon = await readFile('public/icon.svg', 'base64');
        const theme = await readFile('public/theme.js', 'utf8');
        const html = String(page.source)
          .replace(/<script type="module".*?<\/script>/s, () => '')
          .replace(/<script src="[^"]*theme.js"><\/script>/, () => `<script>${theme}</script>`)
          .replace(/<link rel="(stylesheet|modulepreload)"[^>]*>\s*/g, '')
          .replace('./icon.svg', `data:image/svg+xml;base64,${icon}`)
          .replace('</head>', () => `<style>${styles.join('')}</style></head>`);
        const blocks = await Promise.all(Object.entries(embedded).map(block));
        const body = `${blocks.join('\n')}\n<script type="module">${code}</script>\n</body>`;
        const whole = html.replace('</body>', () => body);
        page.source = whole.replace(/content="default-src[^"]*"/, `content="${policy(whole)}"`);
        for (const file of files) if (file !== page) delete bundle[file.fileName];
      },
    },
  };
}

async function block([id, read]: [string, Embedded[string]]): Promise<string> {
  const base64 = gzipSync(await read(), { level: 9 }).toString('base64');
  return `<script type="application/gzip" id="${id}">${base64}</script>`;
}

function policy(html: string): string {
  const scripts = html.matchAll(/<script(?: type="module")?>(.*?)<\/script>/gs);
  const hashes = [...scripts].map(
    ([, text]) => `'sha256-${createHash('sha256').update(text).digest('base64')}'`,
  );
  return [
    "default-src 'none'",
    `script-src ${hashes.join(' ')} 'wasm-unsafe-eval'`,
    "style-src 'unsafe-inline'",
    'font-src data:',
    'img-src data:',
    'worker-src blob:',
  ].join('; ');
}
