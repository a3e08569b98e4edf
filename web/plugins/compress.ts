import { existsSync } from 'node:fs';
import { readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { brotliCompress, constants, gzip } from 'node:zlib';
import type { Plugin } from 'vite';

const KINDS = /\.(html|js|css|wasm|svg|safetensors)$/;

export function compress(): Plugin {
  return {
    name: 'compress',
    apply: 'build',
    writeBundle: ({ dir }) => compressFolder(dir!),
  };
}

/** Writes FILE.gz and FILE.br beside each file that becomes smaller, for servers that send them. */
export async function compressFolder(folder: string): Promise<void> {
  const files = await readdir(folder, { recursive: true });
  await Promise.all(files.filter((f) => KINDS.test(f)).map((file) => both(join(folder, file))));
}

async function both(file: string): Promise<void> {
  const bytes = await readFile(file);
  if ((await stat(file)).size < 1000 || existsSync(`${file}.br`)) return;
  const quality = { params: { [constants.BROTLI_PARAM_QUALITY]: constants.BROTLI_MAX_QUALITY } };
  await writeFile(`${file}.br`, await promisify(brotliCompress)(bytes, quality));
  await writeFile(`${file}.gz`, await promisify(gzip)(bytes, { level: 9 }));
}
