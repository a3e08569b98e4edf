// An embedded chapter: ?embed=highway&hide=text,controls. docs/share.md describes it.

import { t } from '../language/text';
import { sharedLinkTo, wholePageAt } from '../state/link';
import { embedded, query } from '../state/query';
import { theme } from '../ui/theme';

/** The parts that can be hidden. style.css maps each to its elements. */
export const PARTS = [
  'title',
  'text',
  'controls',
  'figures',
  'formulas',
  'tables',
  'code',
  'source',
] as const;

export const hidden = (query.get('hide') ?? '').split(',').filter(Boolean);

/** The first problem of the request, as one sentence; '' if there is none. */
export function complaint(chapters: readonly string[]): string {
  if (!chapters.includes(embedded!)) {
    return t`${quoted(embedded!)} is not a chapter; the chapters are ${chapters.join(', ')}.`;
  }
  const stranger = hidden.find((name) => !(PARTS as readonly string[]).includes(name));
  return stranger === undefined
    ? ''
    : t`${quoted(stranger)} cannot be hidden; these can: ${PARTS.join(', ')}.`;
}

function quoted(name: string): string {
  return `“${name.slice(0, 24)}”`;
}

/** The address of a chapter alone, in its current state. */
export function embedAddress(chapter: string): string {
  const url = new URL(wholePageAt(chapter, sharedLinkTo(chapter)));
  url.searchParams.set('embed', chapter);
  if (theme.value !== 'system') url.searchParams.set('theme', theme.value);
  return url.href;
}

/** HTML that embeds a chapter in its current state. Its script fits the frame's height to the
 * chapter; without the script, the frame scrolls. */
export function iframeOf(chapter: string, title: string, height: number): string {
  return `<iframe src="${escaped(embedAddress(chapter))}" title="${escaped(title)}"
  width="100%" height="${height}" style="border: 0" loading="lazy" allow="clipboard-write"></iframe>
<script>
addEventListener('message', ({ data, source }) => {
  if (!data || data.type !== 'addnorm-height') return;
  for (const frame of document.querySelectorAll('iframe'))
    if (frame.contentWindow === source) frame.height = data.height;
});
</script>
`;
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('"', '&quot;').replaceAll('<', '&lt;');
}

/** Posts the height of the element to the embedding page, now and after every change. */
export function reportHeight(element: Element): () => void {
  const tell = () => {
    const height = Math.ceil(element.getBoundingClientRect().height);
    parent.postMessage({ type: 'addnorm-height', chapter: embedded, height }, '*');
  };
  const observer = new ResizeObserver(tell);
  observer.observe(element);
  return () => observer.disconnect();
}
