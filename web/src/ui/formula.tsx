// Formulas rendered by KaTeX: HTML to see, MathML for screen readers. KaTeX is loaded when the
// first formula comes near; until then its source is shown.

import { signal } from '@preact/signals';
import { useMemo } from 'preact/hooks';
import { useNear } from './near';

type Katex = typeof import('katex').default;

const katex = signal<Katex | undefined>(undefined);

/** Loads KaTeX with the fonts that nearly every formula uses, so that formulas
 * have their final size at once. */
export async function loadKatex(): Promise<void> {
  if (katex.value !== undefined) return;
  const { default: loaded } = await import('./katex');
  await Promise.all(FONTS.map((font) => document.fonts.load(font)));
  katex.value = loaded;
}

const FONTS = ['1em KaTeX_Main', 'italic 1em KaTeX_Math', '1em KaTeX_Size2'];

export function Formula({ tex, block = false }: { tex: string; block?: boolean }) {
  const Tag = block ? 'div' : 'span';
  const element = useNear<any>(tex, () => void loadKatex().catch(() => {}));
  const maker = katex.value;
  const html = useMemo(
    () => maker?.renderToString(tex, { displayMode: block, throwOnError: false }),
    [maker, tex, block],
  );
  const shown =
    html === undefined ? { children: tex } : { dangerouslySetInnerHTML: { __html: html } };
  return <Tag ref={element} class="formula" {...shown} />;
}
