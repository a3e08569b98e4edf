// What an address asks for before its '#': ?theme=dark, ?embed=highway, ?present. The state stands
// after it (link.ts).

/** Empty where the page is rendered without a browser. */
export const query = new URLSearchParams(globalThis.location?.search);

/** The chapter that is to be shown alone; null for the whole page. */
export const embedded = query.get('embed');
