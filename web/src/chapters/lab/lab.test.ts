// Checks that the page's lab equals the program's: the same list, options and numbers.

import { pathToFileURL } from 'node:url';
import { compile } from 'addnorm/compile';
import { beforeAll, beforeEach, expect, test } from 'vitest';
import { plain, wideCatalogue } from '../../../test/wide-letters';
import { native, root, withFolder } from '../../../packages/addnorm/test/native';
import { loadKernels, setKernels } from '../../kernels/current';
import { Lab, type LabCurve, type LabRun } from '../../kernels/lab';
import { resetState } from '../../state/store';
import {
  BUGS,
  command,
  figureChoice,
  type FigureName,
  FIGURES,
  request,
  SEEN_BY,
  state,
} from './state';

let lab: Lab;
beforeAll(async () => {
  setKernels(await loadKernels());
  lab = new Lab(await compile(pathToFileURL(`${root}build/wasm/bin/lab.wasm`)));
});
beforeEach(() => resetState(state));

function runNative(): LabRun {
  const [, ...flags] = command(request()).split(' ');
  return withFolder((path) => JSON.parse(native(...flags, '--json', '--out', path('lab'))));
}

/** Compares numbers up to the rounding of float32 products, which a deep stack amplifies. */
function expectSameNumbers(name: string, found: (number | null)[], expected: (number | null)[]) {
  expect(found.length, name).toBe(expected.length);
  found.forEach((value, i) => {
    const other = expected[i];
    if (value === null || other === null) expect(value, name).toBe(other);
    else expect(Math.abs(value - other), name).toBeLessThanOrEqual(3e-3 * Math.abs(other) + 1e-5);
  });
}

function expectSameCurves(found: LabCurve[], expected: LabCurve[]) {
  expect(found.map(({ name }) => name)).toEqual(expected.map(({ name }) => name));
  found.forEach((curve, c) => {
    expect(curve.x, curve.name).toEqual(expected[c].x);
    for (const numbers of ['y', 'low', 'high'] as const) {
      expectSameNumbers(curve.name, curve[numbers], expected[c][numbers]);
    }
  });
}

test('a bug stays behind with the figure that it was put into', () => {
  state.bug.value = 'no-residual';
  figureChoice.value = 'variance';
  expect([state.figure.value, state.bug.value]).toEqual(['variance', 'none']);
});

test.each(Object.entries(SEEN_BY) as [keyof typeof SEEN_BY, FigureName][])(
  '%s is detected by %s',
  (bug, figure) => {
    figureChoice.value = figure;
    state.bug.value = bug;
    expect(lab.run(request()).verdict).toBe('outside');
  },
);

test('the page has the figures that train nothing, with their options, and all bugs', () => {
  const { figures, bugs } = lab.list();
  const untrained = figures.filter(({ trains }) => !trains);
  expect(untrained.map(({ name }) => name)).toEqual(FIGURES);
  for (const { name, options } of untrained) {
    state.figure.read(name);
    const { figure, ...asked } = request();
    expect(Object.keys(asked).sort(), figure).toEqual(Object.keys(options).sort());
  }
  expect(['none', ...bugs.map(({ name }) => name)]).toEqual(BUGS);
});

test.each(FIGURES)('%s is that of the program', (figure) => {
  state.figure.value = figure;
  const [found, expected] = [lab.run(request()), runNative()];
  expect(found.verdict).toBe('inside');
  expect(expected.verdict).toBe('inside');
  const verdicts = ({ checks }: LabRun) => checks.map((c) => `${c.claim}: ${c.verdict}`).sort();
  expect(verdicts(found)).toEqual(verdicts(expected));
  expect(found.panels.length).toBe(expected.panels.length);
  found.panels.forEach(({ measured, predicted, maps, caption }, i) => {
    const others = expected.panels[i].maps ?? [];
    expect(maps?.map(({ name }) => name) ?? []).toEqual(others.map(({ name }) => name));
    maps?.forEach(({ name, rows }, m) => {
      rows.forEach((row, r) => expectSameNumbers(`${name}, row ${r}`, row, others[m].rows[r]));
    });
    expectSameCurves(measured, expected.panels[i].measured);
    expectSameCurves(predicted, expected.panels[i].predicted);
    expect(caption).not.toBe('');
  });
});

/** The figure's request with its smallest network, whose texts are the same. */
function smallRequest() {
  const { layers, ...others } = request();
  const depths = layers && (layers.length > 1 ? layers.slice(0, 2) : [Math.min(4, layers[0])]);
  return { ...others, ...(layers && { layers: depths }) };
}

/** All texts of a run. */
function textsOf(part: unknown): string[] {
  if (typeof part === 'string') return [part];
  return typeof part === 'object' && part !== null ? Object.values(part).flatMap(textsOf) : [];
}

test.each(FIGURES)('%s has no text that is not translated', (figure) => {
  state.figure.value = figure;
  const translations = { ...wideCatalogue(), nan: ['?'], '-nan': ['?'] };
  const language = { translations, decimal_comma: true };
  for (const bug of [undefined, 'no-residual', 'lanes-folded']) {
    for (const seeds of request().seeds ? [1, 4] : [undefined]) {
      const { title, question, source, setting, panels, checks, tally } = lab.run(
        { ...smallRequest(), seeds, bug },
        language,
      );
      const texts = [title, question, source, setting, panels, checks.map((c) => c.text), tally];
      expect(plain(textsOf(texts).filter((text) => !/^(linear|log)$/.test(text)))).toEqual([]);
    }
  }
});

test('numbers have the decimal comma of the language', () => {
  state.figure.value = 'gradient-flow';
  const { checks } = lab.run(request(), { translations: {}, decimal_comma: true });
  const texts = checks.map((c) => c.text);
  expect(texts.filter((text) => /\d,\d/.test(text)).length).toBeGreaterThan(10);
  expect(texts.filter((text) => /\d\.\d/.test(text))).toEqual([]);
});

test('a bug is seen here as there', () => {
  state.figure.value = 'gradient-flow';
  state.bug.value = 'no-residual';
  expect(lab.run(request()).verdict).toBe('outside');
  expect(command(request())).toBe(
    'build/release/bin/addnorm lab gradient-flow --layers 12 --width 64 --seeds 8 --break no-residual',
  );
});

test('the program’s words come back, and the lab can be used again', () => {
  expect(() => lab.run({ figure: 'variance', layers: [0] })).toThrow(
    '--layers is 0, must be from 1 to 96',
  );
  expect(() => lab.run({ figure: 'depth' })).toThrow('addnorm lab depth');
  expect(() => lab.run({ figure: 'x' })).toThrow('figure "x" is unknown');
  expect(lab.run({ figure: 'pipeline' }).verdict).toBe('inside');
});
