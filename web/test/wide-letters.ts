// A test language: each letter of a translation is a wide one, so that text in
// plain letters is untranslated.

import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { Locator } from 'playwright-core';
import { parsePo } from '../plugins/po';
import { loadKernels } from '../src/kernels/current';
import type { PageOptions } from './page';

const list = fileURLToPath(new URL('../src/locales/de.po', import.meta.url));

/** Replaces letters by wide ones (ａ for a), except in placeholders. */
export function wide(message: string): string {
  const letter = (c: string) => String.fromCharCode(c.charCodeAt(0) + 0xfee0);
  return message
    .split(/(\{\w+\}|<\/?\d+\/?>)/)
    .map((part, i) => (i % 2 ? part : part.replace(/[a-z]/gi, letter)))
    .join('');
}

export function wideCatalogue(): Record<string, string[]> {
  const entries = parsePo(readFileSync(list, 'utf8'));
  return Object.fromEntries(
    entries.map(({ id, plural }) => [id, plural ? [wide(id), wide(plural)] : [wide(id)]]),
  );
}

/** Options that replace the German catalogue by this one. */
export const inWideLetters: PageOptions = {
  changed: {
    '**/locales/de.js': () => `globalThis.catalogue = ${JSON.stringify(wideCatalogue())}`,
  },
};

/** The visible and spoken texts in plain letters, except for names and code. */
export async function plainTexts(part: Locator): Promise<string[]> {
  const texts = await part.evaluateAll((parts) => {
    const isCode = (element: Element) =>
      element.closest(
        'code, pre, style, .katex, .formula, .closing-references, .model-text, textarea, option[lang]',
      );
    const ATTRIBUTES = ['aria-label', 'aria-valuetext', 'title', 'placeholder', 'alt'];
    return parts.flatMap((part) =>
      [part, ...part.querySelectorAll('*')]
        .filter((element) => !isCode(element))
        .flatMap((element) => [
          ...ATTRIBUTES.map((name) => element.getAttribute(name) ?? ''),
          ...[...element.childNodes].map((node) =>
            node.nodeType === Node.TEXT_NODE ? node.textContent! : '',
          ),
        ]),
    );
  });
  return plain(texts);
}

/** Returns the texts that have words in plain letters, except for names. */
export function plain(texts: readonly string[]): string[] {
  return [...new Set(texts)].filter((text) => /[a-z]{3}/i.test(text.replace(NAMES, '')));
}

/** Texts that are not translated. */
const WORDS = [
  '\\w+ et al',
  'Add',
  'arXiv',
  'Attention Residuals',
  'BatchNorm',
  'BERT',
  'b?float\\d\\d',
  'block.cc',
  'CSV',
  'd_head',
  'd_model',
  'DeepSeek-V4',
  'DenseFormer',
  'Derf',
  'docs/\\w+.md',
  'DyT',
  'GELU',
  'GPT-2 small',
  'GPT-3',
  'GroupNorm',
  'Identity-HC',
  'IEEE',
  'InstanceNorm',
  'JavaScript',
  'Kimi K3',
  'LayerNorm',
  'Llama',
  'mean\\(g',
  'mHC',
  'n_heads',
  'Norm',
  'PNG',
  'Python',
  'PyTorch',
  'ReLU',
  'ResiDual',
  'RMS',
  'RMSNorm',
  'SiameseNorm',
  'softmax',
  'SVG',
  'Transformer 2017',
  'Transformer base',
  'Var',
  'What does a deep network forget',
  'Xavier',
];
const kernels = await loadKernels();
const placements = [...kernels.placements(), ...kernels.lanes.rows()].map(({ name }) => name);
const longestFirst = [...placements, ...WORDS].sort((a, b) => b.length - a.length);
const NAMES = new RegExp(`\\b(${longestFirst.join('|')})\\b`, 'g');
