// Finds messages in the sources: t`…`, msg`…`, plural(…) and <Trans>…</Trans> of the page, and
// msg("…") of the library.

import { parseAst, transformWithOxc } from 'vite';
import { tagged, templateOf } from '../src/language/template';

export interface Message {
  id: string;
  plural?: string;
  comments: string[];
}

type Node = Record<string, any>;

export async function messagesOf(source: string, file: string): Promise<Message[]> {
  const jsx = { runtime: 'automatic', importSource: 'preact', development: false } as const;
  const { code } = await transformWithOxc(source, file, {
    jsx,
    sourceType: 'module',
    target: 'esnext',
  });
  const messages: Message[] = [];
  walk(parseAst(code), (node) => {
    try {
      const message = messageOf(node, code);
      if (message?.id) messages.push(message);
    } catch (error) {
      const at = code.slice(node.start, node.end).slice(0, 200);
      throw new Error(`${file}: ${(error as Error).message} in ${at}`);
    }
  });
  return messages;
}

const LITERAL = /"(?:[^"\\\n]|\\.)*"/.source;
const MARKED = new RegExp(`\\bmsg\\(\\s*(${LITERAL}(?:\\s*${LITERAL})*)\\s*([,)])`, 'g');

/** The messages of a C++ file. The fields of a format are numbered, like in src/base/message.cc. */
export function libraryMessages(source: string): string[] {
  return [...source.matchAll(MARKED)].map(([, literals, end]) => {
    const text = literals
      .match(new RegExp(LITERAL, 'g'))!
      .map((literal) => JSON.parse(literal))
      .join('');
    let fields = 0;
    return end === ',' ? text.replace(/\{[^}]*\}/g, () => `{${fields++}}`) : text;
  });
}

function walk(node: unknown, visit: (node: Node) => void): void {
  if (Array.isArray(node)) return node.forEach((child) => walk(child, visit));
  if (typeof node !== 'object' || node === null) return;
  if ('type' in node) visit(node);
  Object.values(node).forEach((child) => walk(child, visit));
}

function messageOf(node: Node, code: string): Message | undefined {
  if (node.type === 'TaggedTemplateExpression' && ['t', 'msg'].includes(node.tag.name)) {
    const { quasis, expressions } = node.quasi;
    const source = ({ start, end }: Node) => code.slice(start, end).replace(/\s+/g, ' ');
    return {
      id: templateOf(quasis.map((quasi: Node) => quasi.value.cooked)),
      comments: expressions.map((value: Node, i: number) => `{${i}} is ${source(value)}`),
    };
  }
  if (node.type !== 'CallExpression') return undefined;
  if (node.callee.name === 'plural') {
    const [, one, other] = node.arguments;
    return { id: textOf(one), plural: textOf(other), comments: [] };
  }
  if (!isElement(node) || node.arguments[0].name !== 'Trans') return undefined;
  return { id: written(childrenOf(node), { elements: 0 }), comments: [] };
}

function isElement({ type, callee }: Node): boolean {
  return type === 'CallExpression' && ['_jsx', '_jsxs'].includes(callee.name);
}

function childrenOf(element: Node): Node | undefined {
  const { properties } = element.arguments[1];
  return properties.find(({ key }: Node) => key?.name === 'children')?.value;
}

/** The message of a child, built like messageOf() in src/language/text.tsx. */
function written(child: Node | undefined, count: { elements: number }): string {
  if (child === undefined) return '';
  if (child.type === 'ArrayExpression') {
    return child.elements.map((element: Node) => written(element, count)).join('');
  }
  if (isElement(child)) return tagged(count.elements++, written(childrenOf(child), count));
  if (child.type === 'ObjectExpression') return `{${child.properties[0].key.name}}`;
  return textOf(child);
}

function textOf(node: Node): string {
  if (node.type === 'Literal' && typeof node.value === 'string') return node.value;
  if (node.type === 'TemplateLiteral' && node.expressions.length === 0) {
    return node.quasis[0].value.cooked;
  }
  throw new Error('a value stands among text without a name: {{ name: value }}');
}
