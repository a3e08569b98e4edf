// The chapters in their order. Each has a folder: state.ts has its state, which is part of every
// link; view.tsx has its view, which is loaded when the reader comes near.

import { signal } from '@preact/signals';
import type { FunctionComponent } from 'preact';
import { t } from '../language/text';
import type { Item } from '../state/store';
import { loadKatex } from '../ui/formula';
import type { Height } from '../ui/room';
import { state as addNorm } from './add-norm/state';
import { state as axes } from './axes/state';
import { state as backward } from './backward/state';
import { state as block } from './block/state';
import { state as geometry } from './geometry/state';
import { state as highway } from './highway/state';
import { state as lab } from './lab/state';
import { state as lanes } from './lanes/state';
import { state as model } from './model/state';
import { state as placement } from './placement/state';
import { state as quiz } from './quiz/state';
import { state as stepByStep } from './step-by-step/state';

interface View {
  View: FunctionComponent;
  reset?(): void; // the part of Reset chapter beyond `state`
}

interface Source {
  id: string;
  title: string;
  state: Record<string, Item<any, any>>; // the values that Reset chapter resets
  height: Height; // the reserved height until it is loaded

  /** Whether KaTeX is loaded with the chapter, because it begins with formulas. */
  formulas?: true;
  load(): Promise<View>;
}

export class Chapter {
  readonly view = signal<View | undefined>(undefined);
  readonly problem = signal('');

  constructor(readonly source: Source) {}

  async load(): Promise<void> {
    if (this.view.value !== undefined) return;
    try {
      const [view] = await Promise.all([this.source.load(), this.source.formulas && loadKatex()]);
      this.view.value = view;
      this.problem.value = '';
    } catch {
      this.problem.value = t`This chapter could not be loaded. Is the server still running?`;
    }
  }
}

const SOURCES: Source[] = [
  {
    id: 'add-norm',
    title: t`Add & Norm`,
    state: addNorm,
    height: [5335, 3675, 3190],
    load: async () => ({ View: (await import('./add-norm/view')).AddNorm }),
  },
  {
    id: 'step-by-step',
    title: t`Step by step`,
    formulas: true,
    state: stepByStep,
    height: [5420, 3195, 2520],
    load: async () => ({ View: (await import('./step-by-step/view')).StepByStep }),
  },
  {
    id: 'geometry',
    title: t`The geometry of LayerNorm`,
    formulas: true,
    state: geometry,
    height: [4555, 2945, 2515],
    load: async () => ({ View: (await import('./geometry/view')).Geometry }),
  },
  {
    id: 'highway',
    title: t`The highway`,
    formulas: true,
    state: highway,
    height: [4045, 2455, 2020],
    load: async () => ({ View: (await import('./highway/view')).Highway }),
  },
  {
    id: 'placement',
    title: t`Where the norm goes`,
    formulas: true,
    state: placement,
    height: [5600, 3250, 3205],
    load: async () => {
      const [view, train] = await Promise.all([
        import('./placement/view'),
        import('./placement/train'),
      ]);
      return { View: view.PlacementChapter, reset: train.resetTraining };
    },
  },
  {
    id: 'lanes',
    title: t`More than one lane`,
    formulas: true,
    state: lanes,
    height: [6885, 4020, 3870],
    load: async () => ({ View: (await import('./lanes/view')).LanesChapter }),
  },
  {
    id: 'axes',
    title: t`Which axes`,
    state: axes,
    height: [3185, 1960, 1770],
    load: async () => ({ View: (await import('./axes/view')).Axes }),
  },
  {
    id: 'backward',
    title: t`Backward`,
    formulas: true,
    state: backward,
    height: [3915, 1755, 1725],
    load: async () => ({ View: (await import('./backward/view')).Backward }),
  },
  {
    id: 'block',
    title: t`The block`,
    formulas: true,
    state: block,
    height: [5880, 3650, 3530],
    load: async () => ({ View: (await import('./block/view')).BlockChapter }),
  },
  {
    id: 'model',
    title: t`A real model`,
    state: model,
    height: [3900, 2650, 2650],
    load: async () => ({ View: (await import('./model/view')).RealModel }),
  },
  {
    id: 'quiz',
    title: t`Quiz`,
    formulas: true,
    state: quiz,
    height: [2445, 1995, 1995],
    load: async () => ({ View: (await import('./quiz/view')).Quiz }),
  },
  {
    id: 'lab',
    title: t`The lab`,
    state: lab,
    height: [4550, 2965, 2375],
    load: async () => ({ View: (await import('./lab/view')).LabChapter }),
  },
];

export const chapters = SOURCES.map((source) => new Chapter(source));
