// The language of the page. public/first.js has chosen it before anything was shown; another one is
// chosen by loading the page again.

/** Empty where the page is rendered without a browser. */
const root = globalThis.document?.documentElement;

export const language = root?.lang || 'en';

/** The languages that a reader can choose, each by its own name. public/first.js has the same ones. */
export const LANGUAGE_NAMES: Record<string, string> = {
  en: 'English',
  de: 'Deutsch',
  es: 'Español',
  zh: '中文',
};
