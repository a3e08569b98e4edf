// Checks how texts are looked up and composed; test/language.test.ts checks them on a page.

import { renderToString } from 'preact-render-to-string';
import { afterEach, expect, test, vi } from 'vitest';
import { libraryMessages, messagesOf } from '../../plugins/messages';
import { formatPo, parsePo } from '../../plugins/po';
import { catalogue } from './catalogue';
import { plural, t, Trans, translated } from './text';

vi.hoisted(() => vi.stubGlobal('document', { documentElement: { lang: 'de' } }));
vi.mock('./catalogue', () => ({ catalogue: {} }));

const add = (entries: Record<string, string[]>) => Object.assign(catalogue, entries);
afterEach(() => Object.keys(catalogue).forEach((key) => delete catalogue[key]));

test('a text without translation is that of the source', () => {
  expect(t`${2} of ${3}
    layers`).toBe('2 of 3 layers');
  expect(plural(1, '{n} layer', '{n} layers')).toBe('1 layer');
  expect(plural(2, '{n} layer', '{n} layers')).toBe('2 layers');
  expect(translated('mean; 2 layers')).toBe('mean; 2 layers');
});

test('a translation may change the order of values and elements', () => {
  add({
    '{0} of {1} layers': ['von {1} Schichten {0}'],
    'See <0>the <1>lab</1></0> and {n}{more}.<2/>': ['{n}{more} <2/>und <0>siehe <1>Labor</1></0>'],
  });
  expect(t`${2} of ${3} layers`).toBe('von 3 Schichten 2');
  const page = renderToString(
    <Trans>
      See{' '}
      <a href="#lab">
        the <b class="x">lab</b>
      </a>{' '}
      and {{ n: 7 }}
      {{ more: <i>more</i> }}.
      <br />
    </Trans>,
  );
  expect(page).toBe('7<i>more</i> <br/>und <a href="#lab">siehe <b class="x">Labor</b></a>');
});

test('the number chooses the form, and other values have names', () => {
  add({ '{n} layer in {place}': ['{n} Schicht in {place}', '{n} Schichten in {place}'] });
  const layers = (n: number) =>
    plural(n, '{n} layer in {place}', '{n} layers in {place}', { place: 'A' });
  expect([0, 1, 2].map(layers)).toEqual(['0 Schichten in A', '1 Schicht in A', '2 Schichten in A']);
});

test('numbers have the separator of the language', () => {
  add({ '{n} layer': ['{n} Schicht'], 'a step of {step}': ['ein Schritt von {step}'] });
  expect(t`from ${-0.5} to ${1e-7}`).toBe('from −0,5 to 1e−7');
  expect(plural(2.5, '{n} layer', '{n} layers')).toBe('2,5 Schicht');
  expect(renderToString(<Trans>a step of {{ step: 0.25 }}</Trans>)).toBe('ein Schritt von 0,25');
  expect(t`version ${'0.1'}`).toBe('version 0.1'); // a text stays as it is
});

test('sources are read by the same rules', async () => {
  const source = `
    const a = t\`\${n} of
       \${all.length} layers\` + plural(n, '{n} layer', '{n} layers') + msg\`kept\`;
    const b = <Trans>
      See{' '}
      <a href="#lab" title={t\`a title\`}>the <b>lab</b></a> and {{ n }}<br /> &amp;
      all
    </Trans>;`;
  const found = await messagesOf(source, 'a.tsx');
  expect(found.map(({ id }) => id).sort()).toEqual(
    [
      '{0} of {1} layers',
      '{n} layer',
      'kept',
      'See <0>the <1>lab</1></0> and {n}<2/> & all',
      'a title',
    ].sort(),
  );
  expect(found[0].comments).toEqual(['{0} is n', '{1} is all.length']);
  await expect(messagesOf('<Trans>so {n} many</Trans>', 'b.tsx')).rejects.toThrow('without a name');
  await expect(messagesOf('plural(n, one, "two")', 'b.ts')).rejects.toThrow('b.ts');
});

test('sources of the library are read as they are compiled', () => {
  const source = `
    .title = msg("A \\"title\\" of {} "
                 "lines"),
    .claim = on ? msg("{:.4g} of {}, {}", x, number(msg("all {}", n)), y) : name, check(message)`;
  expect(libraryMessages(source)).toEqual(['A "title" of {} lines', '{0} of {1}, {2}', 'all {0}']);
});

test('catalogues are read as they are written, and as other programs write them', () => {
  const entries = [
    { id: 'a "b"\\', forms: ['ä\n'] },
    { id: 'one', plural: 'many', forms: ['eins', 'viele'] },
  ];
  expect(parsePo(formatPo('de', 'nplurals=2;', entries))).toEqual(entries);
  expect(parsePo('# by hand\n#, fuzzy\nmsgid ""\n"ab"\n"c"\nmsgstr ""\n"d"\n')).toEqual([
    { id: 'abc', forms: ['d'] },
  ]);
});
