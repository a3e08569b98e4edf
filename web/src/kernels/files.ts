// The modules and the workers as files beside the page. files-embedded.ts replaces this
// file in the single-file build.

import labUrl from '#lab?url';
import networkUrl from '../chapters/model/network.safetensors?url';
import { compile } from 'addnorm/compile';
import type { Portable } from './remote';

export function kernelsModule(): Promise<WebAssembly.Module> {
  return compile();
}

export function labModule(): Promise<WebAssembly.Module> {
  return compile(labUrl);
}

/** The module in a form that can be sent to a worker. */
export function portable(module: WebAssembly.Module): Portable {
  return module;
}

export function sessionWorker(): Worker {
  return new Worker(new URL('./worker.ts', import.meta.url), { type: 'module' });
}

export function labWorker(): Worker {
  return new Worker(new URL('./lab-worker.ts', import.meta.url), { type: 'module' });
}

/** The training text: 200 KB of English that do not change. */
export async function bundledText(): Promise<string> {
  return (await import('virtual:genesis')).default;
}

/** The reason why this build lacks the network of the chapter "A small trained model"; '' if it has it. */
export const networkMissing: string = '';

export async function networkFile(): Promise<ArrayBuffer> {
  const response = await fetch(networkUrl);
  if (!response.ok) throw new Error(`status ${response.status}`);
  return response.arrayBuffer();
}
