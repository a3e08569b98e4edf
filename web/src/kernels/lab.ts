// The lab's figures: its WebAssembly module behind typed functions.

import { Instance } from 'addnorm/instance';

/** A figure and its options. Missing options have the figure's defaults. */
export interface LabRequest {
  figure: string;
  layers?: readonly number[];
  width?: number;
  seeds?: number;
  seed?: number;
  placements?: readonly string[];
  bug?: string;
}

/** A language of the library's texts: the translation of each message, and its numbers. */
export interface LabLanguage {
  translations: Record<string, string[]>;
  decimal_comma: boolean;
}

export type Verdict = 'inside' | 'outside' | 'not applicable';

/** A number in JSON, which lacks infinities and NaN; they become null. */
type JsonNumber = number | null;

export interface LabCurve {
  name: string;
  x: JsonNumber[];
  y: JsonNumber[]; // may be missing for a prediction
  low: JsonNumber[]; // the lower edge of the band, if any
  high: JsonNumber[];
  color: number; // curves of one name have the same, in all panels
  key: string; // the name in the legend; '' if it has no entry there
}

interface LabAxis {
  label: string;
  scale: 'linear' | 'log';
  names?: string[]; // of the positions 0, 1, …
  range?: [number, number]; // the ends; a panel of heat maps has none
}

export interface LabPanel {
  title: string;
  caption: string;
  x: LabAxis;
  y: LabAxis;
  maps?: { name: string; rows: JsonNumber[][] }[]; // replaces curves
  value?: string; // the meaning of the maps' colours
  measured: LabCurve[];
  predicted: LabCurve[];
}

/** The results of a figure, as lab_page_json() writes them. Its texts are in the run's language. */
export interface LabRun {
  figure: string;
  title: string;
  question: string;
  source: string;
  setting: string;
  panels: LabPanel[];
  checks: { claim: string; verdict: Verdict; text: string }[];
  verdict: Verdict;
  tally: string;
}

export interface LabList {
  figures: { name: string; title: string; trains: boolean; options: LabRequest }[];
  bugs: { name: string; meaning: string }[];
}

export class Lab {
  #instance: Instance;

  constructor(module: WebAssembly.Module) {
    this.#instance = new Instance(module);
  }

  list(): LabList {
    const { exports } = this.#instance;
    return JSON.parse(this.#instance.text(exports.lab_list()));
  }

  /** Runs the figure. Without a language its texts are English. */
  run(request: LabRequest, language?: LabLanguage): LabRun {
    const text = new TextEncoder().encode(JSON.stringify({ ...request, language }));
    return this.#instance.call((arena) => {
      const answer = arena.exports.lab_run(arena.put(text), text.length);
      return JSON.parse(this.#instance.text(answer));
    });
  }
}
