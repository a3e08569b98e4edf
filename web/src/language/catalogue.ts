// The catalogue of the page's language. A script before the page's own has put it there: the one that
// public/first.js asks for, or the single file's first. English needs none.

/** The forms of each message; several where a number decides. */
export type Catalogue = Record<string, string[]>;

export const catalogue = (globalThis as { catalogue?: Catalogue }).catalogue ?? {};
