// The page's texts. The code contains the English ones; a catalogue gives those of other languages.

import {
  cloneElement,
  type ComponentChild,
  type ComponentChildren,
  createContext,
  type FunctionComponent,
  isValidElement,
  type VNode,
} from 'preact';
import { useContext } from 'preact/hooks';
import { catalogue } from './catalogue';
import { language, localNumber } from './language';
import { filled, PLACES, tagged, templateOf } from './template';

/** t`A stack of ${n} layers`, in the reader's language. */
export function t(parts: TemplateStringsArray, ...values: unknown[]): string {
  return filled(found(templateOf(parts)), values.map(written));
}

const CATEGORIES = ['zero', 'one', 'two', 'few', 'many', 'other'] as const;
const rules = new Intl.PluralRules(language);
const categories = CATEGORIES.filter((c) => rules.resolvedOptions().pluralCategories.includes(c));

/** plural(n, '{n} layer', '{n} layers'). Other values are named as well. */
export function plural(n: number, one: string, other: string, values: object = {}): string {
  const forms = catalogue[one] ?? [one, other];
  const form = Math.min(categories.indexOf(rules.select(n)), forms.length - 1);
  const all = Object.entries({ n, ...values }).map(([name, value]) => [name, written(value)]);
  return filled(forms[form], Object.fromEntries(all));
}

/** Translates a text that msg() marks, in a worker or in the library. A text without a translation
 * stays as it is. */
export function translated(text: string): string {
  return found(text);
}

/** The component that shows the plain parts of a <Trans>; undefined for text alone. */
export const Plain = createContext<FunctionComponent<{ text: string }> | undefined>(undefined);

/** <Trans>See <a href="…">the lab</a> for {{ n }} more.</Trans>: text
 * with elements and named values. */
export function Trans({ children }: { children: ComponentChildren }) {
  const elements: VNode<any>[] = [];
  const values: Record<string, ComponentChild> = {};
  const message = messageOf(children, elements, values);
  const parts = built(found(message), elements, values);
  const Text = useContext(Plain);
  return (
    <>
      {Text ? parts.map((part) => (typeof part === 'string' ? <Text text={part} /> : part)) : parts}
    </>
  );
}

/** A value of a text: a number in the notation of the page's language, anything else as it is. */
function written<V>(value: V): V | string {
  return typeof value === 'number' ? localNumber(String(value).replace('-', '−')) : value;
}

function found(message: string): string {
  return catalogue[message]?.[0] ?? message;
}

function messageOf(
  child: ComponentChildren,
  elements: VNode<any>[],
  values: Record<string, ComponentChild>,
): string {
  if (Array.isArray(child)) return child.map((c) => messageOf(c, elements, values)).join('');
  if (isValidElement(child)) {
    const number = elements.push(child) - 1;
    return tagged(number, messageOf((child.props as any).children ?? '', elements, values));
  }
  if (typeof child !== 'object' || child === null) return String(child ?? '');
  for (const [name, value] of Object.entries(child)) values[name] = written(value);
  return `{${Object.keys(child)[0]}}`;
}

function built(
  message: string,
  elements: VNode<any>[],
  values: Record<string, ComponentChild>,
): ComponentChild[] {
  const parts: ComponentChild[] = [];
  let end = 0;
  for (const { 0: whole, index, ...place } of message.matchAll(PLACES)) {
    if (index > end) parts.push(message.slice(end, index));
    end = index + whole.length;
    const { 1: value, 2: element, 3: content, 4: alone } = place;
    if (value !== undefined) parts.push(value in values ? values[value] : whole);
    else if (alone !== undefined) parts.push(elements[Number(alone)]);
    else
      parts.push(cloneElement(elements[Number(element)], {}, ...built(content, elements, values)));
  }
  if (end < message.length) parts.push(message.slice(end));
  return parts;
}
