// A static server that sends the compressed files of the build, as hosts do.

import { existsSync, readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { extname, join } from 'node:path';

const TYPES: Record<string, string> = {
  '.html': 'text/html',
  '.js': 'text/javascript',
  '.css': 'text/css',
  '.wasm': 'application/wasm',
  '.svg': 'image/svg+xml',
  '.woff2': 'font/woff2',
};

export async function serveCompressed(folder: string) {
  const server = createServer((request, response) => {
    const path = new URL(request.url!, 'http://x').pathname;
    const file = join(folder, path === '/' ? 'index.html' : path);
    const packed = existsSync(`${file}.br`);
    if (!existsSync(file)) return response.writeHead(404).end();
    const headers = { 'Content-Type': TYPES[extname(file)] ?? 'application/octet-stream' };
    response.writeHead(200, packed ? { ...headers, 'Content-Encoding': 'br' } : headers);
    response.end(readFileSync(packed ? `${file}.br` : file));
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  const { port } = server.address() as AddressInfo;
  return { address: `http://127.0.0.1:${port}`, stop: () => server.close() };
}
