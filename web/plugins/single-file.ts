import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { gzipSync } from 'node:zlib';
import type { Plugin, Rolldown } from 'vite';

/** The files embedded in the page, by id. */
export type Embedded = Record<string, () => Promise<string | Uint8Array>>;

/** Puts the script, the styles and the embedded files into the page. Its
 * policy then allows only these. */
export function singleFile(embedded: Embedded): Plugin {
  return {
    name: 'single-file',
    enforce: 'post',
    generateBundle: {
      order: 'post', // after Vite's own plugins
      async handler(_, bundle) {
        const files = Object.values(bundle);
        const of = (end: string) => files.filter(({ fileName }) => fileName.endsWith(end));
        const [page] = of('.html') as Rolldown.OutputAsset[];
        const styles = of('.css').map((file) => (file as Rolldown.OutputAsset).source);
        const script = of('.js').map((file) => (file as Rolldown.OutputChunk).code);
        if (script.length !== 1) throw new Error(`${script.length} scripts are not one`);
        const icon = await readFile('public/icon.svg', 'base64');
        const first = await readFile('public/first.js', 'utf8');
        const html = String(page.source)
          .replace(/<script type="module".*?<\/script>/s, () => '')
          .replace(/<script src="[^"]*first.js"><\/script>/, () => `<script>${first}</script>`)
          .replace(/<link rel="(stylesheet|modulepreload)"[^>]*>\s*/g, '')
          .replace('./icon.svg', `data:image/svg+xml;base64,${icon}`)
          .replace('</head>', () => `<style>${styles.join('')}</style></head>`);
        const parts = { ...embedded, 'main.js': async () => script[0] };
        const blocks = await Promise.all(Object.entries(parts).map(block));
        const body = `${blocks.join('\n')}\n<script type="module">${START}</script>\n</body>`;
        const allowed = policy([first, START, script[0]]);
        page.source = html
          .replace('</body>', () => body)
          .replace(/content="default-src[^"]*"/, `content="${allowed}"`);
        for (const file of files) if (file !== page) delete bundle[file.fileName];
      },
    },
  };
}

async function block([id, read]: [string, Embedded[string]]): Promise<string> {
  const base64 = gzipSync(await read(), { level: 9 }).toString('base64');
  return `<script type="application/gzip" id="${id}">${base64}</script>`;
}

/** Loads the catalogue, if the language has one, and runs the page's script.
 * Compression halves the script's size. */
const START = `
async function textOf(block) {
  const bytes = Uint8Array.from(atob(block.textContent), (character) => character.charCodeAt(0));
  const unzipped = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
  return new Response(unzipped).text();
}
const catalogue = document.getElementById(document.documentElement.lang + '.po');
if (catalogue) globalThis.catalogue = JSON.parse(await textOf(catalogue));
const script = document.createElement('script');
script.type = 'module';
script.textContent = await textOf(document.getElementById('main.js'));
document.body.append(script);
`;

function policy(scripts: readonly string[]): string {
  const hashes = scripts.map(
    (text) => `'sha256-${createHash('sha256').update(text).digest('base64')}'`,
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
