// Modules, workers and text out of the page itself, where the single-file build has put them.

import { compile } from 'addnorm/compile';
import LabWorker from './lab-worker?worker&inline';
import { t } from '../language/text';
import type { Portable } from './remote';
import SessionWorker from './worker?worker&inline';

/** What a script element holds that no browser runs: base64 of gzip. */
function embedded(id: string): Response {
  const base64 = document.getElementById(id)!.textContent!;
  const bytes = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
  const unzipped = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
  return new Response(unzipped);
}

const bytesOf = new WeakMap<WebAssembly.Module, ArrayBuffer>();

async function embeddedModule(id: string): Promise<WebAssembly.Module> {
  const bytes = await embedded(id).arrayBuffer();
  const module = await compile(bytes);
  bytesOf.set(module, bytes);
  return module;
}

export function kernelsModule(): Promise<WebAssembly.Module> {
  return embeddedModule('addnorm.wasm');
}

export function labModule(): Promise<WebAssembly.Module> {
  return embeddedModule('lab.wasm');
}

/** A page of file:// may send no module to a worker, so it sends the module's bytes. */
export function portable(module: WebAssembly.Module): Portable {
  return bytesOf.get(module)!;
}

export function sessionWorker(): Worker {
  return new SessionWorker();
}

export function labWorker(): Worker {
  return new LabWorker();
}

export function bundledText(): Promise<string> {
  return embedded('genesis').text();
}

export const networkMissing = t`The trained network of this chapter is not in this file, which is to stay
  below 2 MB. The tutorial as a folder, which make serve and make site give, has it.`;

export function networkFile(): Promise<ArrayBuffer> {
  return Promise.reject(new Error(networkMissing));
}
