// Checks that every panel of the lab is drawn, with finite coordinates and translated texts.

import { pathToFileURL } from 'node:url';
import { compile } from 'addnorm/compile';
import { renderToString } from 'preact-render-to-string';
import { beforeAll, describe, expect, test, vi } from 'vitest';
import { root } from '../../../packages/addnorm/test/native';
import { plain, wideCatalogue } from '../../../test/wide-letters';
import { loadKernels, setKernels } from '../../kernels/current';
import { Lab, type LabCurve, type LabPanel } from '../../kernels/lab';
import { PanelFigure } from './panel';
import { FIGURES, request, state } from './state';

vi.mock('../../language/catalogue', async () => {
  const { wideCatalogue } = await import('../../../test/wide-letters');
  return { catalogue: wideCatalogue() };
});
vi.hoisted(() => {
  const measureText = (text: string) => ({ width: 7 * text.length });
  const createElement = () => ({ getContext: () => ({ measureText }) });
  vi.stubGlobal('document', { documentElement: { lang: 'de' }, createElement });
});

let lab: Lab;
const language = { translations: wideCatalogue(), decimal_comma: true };
beforeAll(async () => {
  setKernels(await loadKernels());
  lab = new Lab(await compile(pathToFileURL(`${root}build/wasm/bin/lab.wasm`)));
});

/** The drawing of a panel as SVG, without its tables. */
function drawn(panel: LabPanel): string {
  const [svg] = /<svg class="drawing"[^]*<\/svg>(?=<details)/.exec(
    renderToString(<PanelFigure panel={panel} fails={false} />),
  )!;
  return svg;
}

const count = (text: string, part: RegExp) => text.match(part)?.length ?? 0;
const textsOf = (svg: string) => [...svg.matchAll(/<text[^>]*>([^<]+)</g)].map(([, text]) => text);

/** Checks a drawing, however broken the network is. */
function expectSound(panel: LabPanel) {
  const svg = drawn(panel);
  expect(svg).not.toMatch(/NaN|Infinity|undefined|null/);
  expect(plain([...textsOf(svg), /aria-label="([^"]*)"/.exec(svg)![1]])).toEqual([]);
  expect(textsOf(svg).filter((text) => /\d\.\d/.test(text))).toEqual([]);
  return svg;
}

test.each(FIGURES)('%s draws all its curves and maps', (figure) => {
  state.figure.value = figure;
  for (const panel of lab.run(request(), language).panels) {
    const svg = expectSound(panel);
    const { measured, predicted, maps = [] } = panel;
    expect(measured.length + maps.length).toBeGreaterThan(0);
    const withLine = (curves: LabCurve[]) => curves.filter(({ y }) => y.length > 0).length;
    expect(count(svg, /class="line theory" d="M/g)).toBe(withLine(predicted));
    expect(count(svg, /class="line" d="M[^"]*" stroke="[^"]*" stroke-width="2"/g)).toBe(
      withLine(measured),
    );
    const bands = [...measured, ...predicted].filter(({ low }) => low.length > 0);
    expect(count(svg, /class="(spread|agreement)" d="M/g)).toBe(bands.length);
    for (const { key } of [...measured, ...predicted]) {
      if (key) expect(textsOf(svg).map((text) => text.replaceAll('&amp;', '&'))).toContain(key);
    }
    for (const { name } of maps) expect(textsOf(svg)).toContain(name);
    const cells = maps.flatMap(({ rows }) => rows.flat()).length;
    const drawings = svg.match(/<path d="M[^"]*Z" style="fill/g) ?? [];
    expect(drawings.reduce((sum, path) => sum + count(path, /M/g), 0)).toBe(cells);
  }
});

describe.each(['no-residual', 'lanes-folded'])('the bug %s', (bug) => {
  test.each(FIGURES)('leaves %s drawable', (figure) => {
    state.figure.value = figure;
    const seeds = request().seeds && 1;
    lab.run({ ...request(), seeds, bug }, language).panels.forEach(expectSound);
  });
});

const AXES = {
  x: { label: '', scale: 'linear', range: [0, 3] },
  y: { label: '', scale: 'log', range: [0.1, 10] },
} satisfies Partial<LabPanel>;

function panelOf(y: (number | null)[], more: Partial<LabCurve> = {}): LabPanel {
  const curve = { name: 'ａ', key: 'ａ', color: 0, x: [0, 1, 2, 3], low: [], high: [], y, ...more };
  return { title: '', caption: '', ...AXES, measured: [curve], predicted: [] };
}

test('a curve that diverges ends in a cross, and a zero of a logarithmic axis is a triangle', () => {
  expect(count(drawn(panelOf([1, 2, 5, null])), /class="cross"/g)).toBe(1);
  const gap = drawn(panelOf([1, null, 5, 6]));
  expect(count(gap, /class="cross"/g)).toBe(0);
  expect(gap).toMatch(/class="line" d="M[^LM"]*ZM/); // open at the gap
  expect(count(drawn(panelOf([1, 0, -1, 5])), /class="hollow"/g)).toBe(2);
});

test('a prediction for one point is a short line; a band with one finite edge reaches the end of the plot, one with none is a gap', () => {
  const alone = panelOf([1, null, 5, 6], { low: [0.5, null, 4, 5], high: [2, null, 6, 7] });
  expect(expectSound({ ...alone, measured: [], predicted: alone.measured })).toMatch(
    /class="line theory" d="M[^LM]*L[^LM]*M/,
  );
  const open = panelOf([1, 1, 1, 1], { low: [0.5, null, null, 0.5], high: [2, 2, null, null] });
  const [, path] = /class="spread" d="([^"]*)"/.exec(expectSound(open))!;
  expect(count(path, /M/g)).toBe(2);
});

test('a map marks what is not finite, and negative values', () => {
  const maps = [{ name: 'ａ', rows: [[1], [null, -0.5]] }];
  const svg = drawn({ ...panelOf([]), maps, value: 'ｂ' });
  expect(svg).toContain('var(--broken)');
  expect(svg).toContain('var(--negative)');
});
