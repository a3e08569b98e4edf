import type { Plugin } from 'vite';

/** Keeps KaTeX's fonts in WOFF2 only, which every browser with WebAssembly SIMD supports. `only`
 * selects the fonts whose names match. */
export function woff2(only = /./): Plugin {
  const face = (rule: string) =>
    only.test(rule)
      ? rule.replace(/,url\([^)]*\.(woff|ttf)\) format\("(woff|truetype)"\)/g, '')
      : '';
  return {
    name: 'woff2',
    enforce: 'pre',
    transform: (css, id) =>
      id.endsWith('katex.min.css') ? css.replace(/@font-face\{[^}]*\}/g, face) : undefined,
  };
}
