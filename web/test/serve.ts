// Starts `addnorm serve` on a free port for the tests of this folder, and stops it at the end.

import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import type { TestProject } from 'vitest/node';

const program = fileURLToPath(new URL('../../build/release/bin/addnorm', import.meta.url));
const folder = process.env.TUTORIAL ?? fileURLToPath(new URL('../dist', import.meta.url));

export default async function serve(project: TestProject): Promise<() => void> {
  const { address, stop } = await startServer(['--port', '0']);
  project.provide('address', address);
  return stop;
}

export interface Server {
  address: string;
  stop(): void;
}

export async function startServer(flags: readonly string[], from = folder): Promise<Server> {
  const server = spawn(program, ['serve', '--folder', from, ...flags], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const address = await new Promise<string>((resolve, reject) => {
    let printed = '';
    server.stdout.on('data', (chunk) => {
      printed += chunk;
      const found = /http:\/\/[\d.:]+/.exec(printed);
      if (found && printed.endsWith('\n')) resolve(found[0]);
    });
    server.on('error', reject);
    server.on('exit', (code) => reject(new Error(`addnorm serve ended with status ${code}`)));
  });
  return { address, stop: () => server.kill() };
}

declare module 'vitest' {
  export interface ProvidedContext {
    address: string;
  }
}
