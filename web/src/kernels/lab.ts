// The lab's figures: its WebAssembly module behind typed functions.

import { Instance } from 'addnorm/instance';

/** A figure and its options; the figure has defaults for those left out. */
export interface LabRequest {
  figure: string;
  layers?: readonly number[];
  width?: number;
  seeds?: number;
  seed?: number;
  placements?: readonly string[];
  bug?: string;
}

export type Verdict = 'inside' | 'outside' | 'not applicable';

/** JSON has neither infinities nor NaN; they become null. */
type JsonNumber = number | null;

export interface LabCurve {
  name: string;
  x: JsonNumber[];
  y: JsonNumber[]; // of a prediction perhaps none
  low: JsonNumber[]; // the band's, or none
  high: JsonNumber[];
}

export interface LabPanel {
  title: string;
  caption: string;
  x: { label: string; names?: string[] };
  y: { label: string; names?: string[] };
  maps?: { name: string; rows: JsonNumber[][] }[]; // instead of curves
  measured: LabCurve[];
  predicted: LabCurve[];
  wide: string; // SVG
  narrow: string;
}

/** A figure that has run, as lab_page_json() writes it. */
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

  run(request: LabRequest): LabRun {
    const text = new TextEncoder().encode(JSON.stringify(request));
    return this.#instance.call((arena) => {
      const answer = arena.exports.lab_run(arena.put(text), text.length);
      return JSON.parse(this.#instance.text(answer));
    });
  }
}
