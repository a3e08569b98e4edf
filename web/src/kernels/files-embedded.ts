// Modules, workers and text from the page itself, for the single-file build.

import { compile } from 'addnorm/compile';
import LabWorker from './lab-worker?worker&inline';
import { t } from '../language/text';
import type { Portable } from './remote';
import SessionWorker from './worker?worker&inline';

/** The content of a script element that browsers do not run: base64 of gzip. */
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

/** The module's bytes. A page of file:// cannot send a compiled module to a worker. */
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

export const networkMissing = t`The trained network of this chapter is not in this file, which must
  stay below 2 MB. The tutorial folder that make serve and make site build contains it.`;

export function networkFile(): Promise<ArrayBuffer> {
  return Promise.reject(new Error(networkMissing));
}
