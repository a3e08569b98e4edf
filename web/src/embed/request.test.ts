// Checks the request for an embedded chapter, and the HTML that makes it.

import { afterEach, expect, test, vi } from 'vitest';

/** Opens the page with a query, as after a reload. */
async function open(search: string) {
  vi.resetModules();
  vi.stubGlobal('location', { search, hash: '', href: `https://a.b/page/${search}` });
  return {
    ...(await import('./request')),
    theme: (await import('../ui/theme')).theme,
  };
}
afterEach(() => void vi.unstubAllGlobals());

test.each([
  ['?embed=one', ''],
  ['?embed=one&hide=text,controls,', ''],
  ['?embed=one&hide=text,links', '“links” cannot be hidden; these can: title,'],
  [`?embed=${'n'.repeat(30)}`, `“${'n'.repeat(24)}” is not a chapter; the chapters are one, two.`],
])('%s', async (search, problem) => {
  const { complaint } = await open(search);
  const found = complaint(['one', 'two']);
  if (problem === '') expect(found).toBe('');
  else expect(found).toContain(problem);
});

test('the HTML names the chapter, the title and a theme that was chosen', async () => {
  const { iframeOf, theme } = await open('?lang=de&present=2');
  theme.value = 'system';
  expect(iframeOf('one', 'A "b" & <c>', 300)).toContain(
    'src="https://a.b/page/?lang=de&amp;embed=one#one" title="A &quot;b&quot; &amp; &lt;c>"',
  );
  theme.value = 'dark';
  expect(iframeOf('one', '', 300)).toContain('&amp;embed=one&amp;theme=dark#one"');
});
