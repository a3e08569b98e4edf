// The catalogue out of the page itself, where the single-file build has put it and its first script
// has read it.

import type { Catalogue } from './catalogue';

export const catalogue = (globalThis as { catalogue?: Catalogue }).catalogue ?? {};
