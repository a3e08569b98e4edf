// Where the modules and the workers come from: files beside the page. files-embedded.ts takes this
// file's place where the page is one file.

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

/** A text to train on: 200 KB of English that never change. */
export async function bundledText(): Promise<string> {
  return (await import('virtual:genesis')).default;
}

/** Why the page does without the network of its chapter "A real model"; '' where it has one. */
export const networkMissing: string = '';

export async function networkFile(): Promise<ArrayBuffer> {
  const response = await fetch(networkUrl);
  if (!response.ok) throw new Error(`status ${response.status}`);
  return response.arrayBuffer();
}
