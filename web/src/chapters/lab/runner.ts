// Runs figures in a worker, the newest request first.

import { batch, signal } from '@preact/signals';
import { labModule, labWorker, portable } from '../../kernels/files';
import type { Lab, LabLanguage, LabList, LabRequest, LabRun } from '../../kernels/lab';
import { connect, newest, type Remote } from '../../kernels/remote';
import { catalogue } from '../../language/catalogue';
import { decimalComma } from '../../language/language';
import { t } from '../../language/text';

export interface Ran {
  run: LabRun;
  request: LabRequest;
  milliseconds: number;
}

export const ran = signal<Ran | undefined>(undefined);
export const running = signal(false);
export const problem = signal('');
export const list = signal<LabList | undefined>(undefined);

/** The page's language, and its words for numbers that a bug has left without a value. */
const language: LabLanguage = {
  translations: {
    ...catalogue,
    nan: [t`not a number`],
    '-nan': [t`not a number`],
    inf: ['∞'],
    '-inf': ['−∞'],
  },
  decimal_comma: decimalComma,
};

/** A figure that runs longer than this many milliseconds is cancelled by the next request. */
const PATIENCE = 1000;

let lab: Remote<Lab> | undefined;
let began = Infinity; // the start of the current run
let giveUp = () => {};

async function startLab(): Promise<Remote<Lab>> {
  const started = connect<Lab>(labWorker(), labModule().then(portable));
  try {
    list.value = await started.call('list');
    return started;
  } catch (error) {
    started.close();
    throw error;
  }
}

const queue = newest(async (request: LabRequest, isNewest) => {
  running.value = true;
  try {
    if (lab === undefined || lab.failed) lab = await startLab();
    const worker = lab;
    const givenUp = new Promise<undefined>((resolve) => (giveUp = () => resolve(undefined)));
    began = performance.now();
    const result = await Promise.race([worker.call('run', request, language), givenUp]);
    if (result === undefined) {
      worker.close();
      lab = undefined;
      return;
    }
    const milliseconds = performance.now() - began;
    batch(() => {
      ran.value = { run: result, request, milliseconds };
      problem.value = '';
    });
  } catch (error) {
    problem.value = (error as Error).message;
  } finally {
    began = Infinity;
    running.value = !isNewest();
  }
});

export function run(request: LabRequest): void {
  queue(request);
  if (performance.now() - began > PATIENCE) giveUp();
}
