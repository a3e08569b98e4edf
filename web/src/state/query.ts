// The query of the address, before its '#': ?theme=dark, ?embed=highway, ?present. The state comes
// after the '#' (link.ts).

/** The query; empty if the page is rendered without a browser. */
export const query = new URLSearchParams(globalThis.location?.search);

/** The embedded chapter; null for the whole page. */
export const embedded = query.get('embed');
