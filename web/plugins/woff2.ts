import type { Plugin } from 'vite';

/** KaTeX's fonts in the one format that every browser with WebAssembly SIMD reads; `only` those whose
 * names match. */
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
