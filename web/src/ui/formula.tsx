// Formulas by KaTeX: HTML for eyes, MathML for screen readers. KaTeX is loaded when the first of them
// comes near; until then there is the formula's source.

import { signal } from '@preact/signals';
import { useMemo } from 'preact/hooks';
import { useNear } from './near';

type Katex = typeof import('katex').default;

const katex = signal<Katex | undefined>(undefined);

export async function loadKatex(): Promise<void> {
  if (katex.value === undefined) katex.value = (await import('./katex')).default;
}

export function Formula({ tex, block = false }: { tex: string; block?: boolean }) {
  const Tag = block ? 'div' : 'span';
  const element = useNear<HTMLElement>(tex, () => void loadKatex().catch(() => {}));
  const maker = katex.value;
  const html = useMemo(
    () => maker?.renderToString(tex, { displayMode: block, throwOnError: false }),
    [maker, tex, block],
  );
  const content = html === undefined ? tex : undefined;
  const inner = html === undefined ? undefined : { __html: html };
  return (
    <Tag ref={element as any} class="formula" dangerouslySetInnerHTML={inner}>
      {content}
    </Tag>
  );
}
