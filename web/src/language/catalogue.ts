// The catalogue of the page's language. An earlier script sets it: a file that public/first.js
// loads, or a script of the single file. English needs none.

/** The forms of each message; several for a plural. */
export type Catalogue = Record<string, string[]>;

export const catalogue = (globalThis as { catalogue?: Catalogue }).catalogue ?? {};
