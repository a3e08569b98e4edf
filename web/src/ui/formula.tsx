// Formulas by KaTeX: HTML for eyes, MathML for screen readers.

import katex from 'katex';
import 'katex/dist/katex.min.css';
import { useMemo } from 'preact/hooks';

export function Formula({ tex, block = false }: { tex: string; block?: boolean }) {
  const html = useMemo(
    () => katex.renderToString(tex, { displayMode: block, throwOnError: false }),
    [tex, block],
  );
  const Tag = block ? 'div' : 'span';
  return <Tag class="formula" dangerouslySetInnerHTML={{ __html: html }} />;
}
