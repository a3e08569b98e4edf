// The language of the page. public/first.js chooses it before the first
// paint. Changing it reloads the page.

/** Undefined if the page is rendered without a browser. */
const root = globalThis.document?.documentElement;

export const language = root?.lang || 'en';

/** Whether the language writes 0,5 for one half. */
export const decimalComma = (0.5).toLocaleString(language).includes(',');

/** A number in English notation, 1,234.5, with the separators of the page's language. */
export function localNumber(text: string): string {
  return decimalComma ? text.replace(/[.,]/g, (c) => (c === '.' ? ',' : '.')) : text;
}

/** The available languages, each by its own name. public/first.js has the same list. */
export const LANGUAGE_NAMES: Record<string, string> = {
  en: 'English',
  de: 'Deutsch',
  es: 'Español',
  zh: '中文',
};
