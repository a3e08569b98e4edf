// Starts `addnorm serve` on a free port for the tests of this folder, and stops it at the end.

import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import type { TestProject } from 'vitest/node';

const program = fileURLToPath(new URL('../../build/release/bin/addnorm', import.meta.url));
const folder = process.env.TUTORIAL ?? fileURLToPath(new URL('../dist', import.meta.url));

export default async function serve(project: TestProject): Promise<() => void> {
  const server = spawn(program, ['serve', '--port', '0', '--folder', folder], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const address = await new Promise<string>((resolve, reject) => {
    let printed = '';
    server.stdout.on('data', (chunk) => {
      printed += chunk;
      const found = /http:\/\/\S+/.exec(printed);
      if (found) resolve(found[0]);
    });
    server.on('error', reject);
    server.on('exit', (code) => reject(new Error(`addnorm serve ended with status ${code}`)));
  });
  project.provide('address', address);
  return () => server.kill();
}

declare module 'vitest' {
  export interface ProvidedContext {
    address: string;
  }
}
