// The texts of the library that the page shows: names of placements, and the lab.

import { pathToFileURL } from 'node:url';
import { compile } from 'addnorm/compile';
import { root } from '../packages/addnorm/test/native';
import { chosenFigure, FIGURES, request, state } from '../src/chapters/lab/state';
import type { Item } from '../src/state/store';
import { kernels, loadKernels, setKernels } from '../src/kernels/current';
import { withLabels } from '../src/language/drawing';
import { pieces, withoutNumbers } from '../src/language/template';
import { Lab, type LabRequest, type LabRun } from '../src/kernels/lab';

/** The pieces of the texts without their numbers. Pieces that are never translated, the names of
 * placements, are left out. */
export async function libraryMessages(): Promise<string[]> {
  const texts = await libraryTexts();
  const names = new Set([...kernels.placements(), ...kernels.lanes.rows()].map(({ name }) => name));
  return texts
    .flatMap(pieces)
    .filter((piece) => !piece.split(', ').every((name) => names.has(name)))
    .map((piece) => withoutNumbers(piece)[0])
    .filter((message) => /\p{L}{2}|^\W+$/u.test(message) && !message.endsWith('.md'));
}

async function libraryTexts(): Promise<string[]> {
  setKernels(await loadKernels());
  const lab = new Lab(await compile(pathToFileURL(`${root}build/wasm/bin/lab.wasm`)));
  const runs = FIGURES.flatMap((figure) => requestsOf(figure).map((request) => lab.run(request)));
  return [
    ...kernels.placements().map(({ usedBy }) => usedBy),
    ...kernels.lanes.rows().map(({ usedBy }) => usedBy),
    ...lab.list().bugs.map(({ meaning }) => meaning),
    ...runs.flatMap(textsOf),
  ];
}

/** Two requests for a figure: with its initial options, and with a bug and the least value of each
 * option, for which claims do not apply. */
function requestsOf(figure: string): LabRequest[] {
  state.figure.read(figure);
  const first = request();
  for (const item of Object.values<Item<any, any>>(chosenFigure())) {
    const { min, values } = item.field;
    item.value = min ?? values?.[0] ?? item.value;
  }
  return [first, { ...request(), bug: 'no-residual' }];
}

function textsOf({ title, question, source, setting, panels, checks, verdict, tally }: LabRun) {
  const ofPanels = panels.flatMap(({ wide, narrow, title, caption, x, y }) => [
    title,
    caption,
    x.label,
    y.label,
    ...inSvg(wide),
    ...inSvg(narrow),
  ]);
  const ofChecks = checks.flatMap(({ verdict, text }) => [verdict, text]);
  return [title, question, source, setting, verdict, tally, ...ofPanels, ...ofChecks];
}

function inSvg(svg: string): string[] {
  const labels: string[] = [];
  withLabels(svg, (label) => {
    labels.push(label);
    return label;
  });
  return labels;
}
