// The chapters in their order. Each has a folder: state.ts has its state, which is part of every
// link; view.tsx has its view, which is loaded when the reader comes near.

import { computed, signal } from '@preact/signals';
import type { FunctionComponent } from 'preact';
import { t } from '../language/text';
import { route, SHORT } from '../state/route';
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

/** g is drawn in the chapter “Backward”. */
const { g, ...forward } = geometry;

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
    height: [4075, 2520, 2380],
    load: async () => ({ View: (await import('./step-by-step/view')).StepByStep }),
  },
  {
    id: 'geometry',
    title: t`The geometry of LayerNorm`,
    formulas: true,
    state: forward,
    height: [2260, 1360, 1010],
    load: async () => ({ View: (await import('./geometry/view')).Geometry }),
  },
  {
    id: 'highway',
    title: t`The highway`,
    formulas: true,
    state: highway,
    height: [3490, 2185, 1825],
    load: async () => ({ View: (await import('./highway/view')).Highway }),
  },
  {
    id: 'placement',
    title: t`Where the norm goes`,
    formulas: true,
    state: placement,
    height: [4935, 2850, 2810],
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
    height: [3610, 2470, 2425],
    load: async () => ({ View: (await import('./lanes/view')).LanesChapter }),
  },
  {
    id: 'axes',
    title: t`Which axes`,
    state: axes,
    height: [3200, 1945, 1760],
    load: async () => ({ View: (await import('./axes/view')).Axes }),
  },
  {
    id: 'backward',
    title: t`Backward`,
    formulas: true,
    state: { ...backward, g },
    height: [4115, 1845, 1750],
    load: async () => ({ View: (await import('./backward/view')).Backward }),
  },
  {
    id: 'block',
    title: t`The block`,
    formulas: true,
    state: block,
    height: [3920, 1990, 1915],
    load: async () => ({ View: (await import('./block/view')).BlockChapter }),
  },
  {
    id: 'model',
    title: t`A small trained model`,
    state: model,
    height: [4480, 2785, 2785],
    load: async () => ({ View: (await import('./model/view')).SmallModel }),
  },
  {
    id: 'quiz',
    title: t`Quiz`,
    formulas: true,
    state: quiz,
    height: [525, 380, 380],
    load: async () => {
      const { Quiz, restart } = await import('./quiz/view');
      return { View: Quiz, reset: restart };
    },
  },
  {
    id: 'lab',
    title: t`The lab`,
    state: lab,
    height: [4390, 2320, 2330],
    load: async () => ({ View: (await import('./lab/view')).LabChapter }),
  },
];

/** All chapters. Their numbers on the page are their places here, from 1. */
export const chapters: readonly Chapter[] = SOURCES.map((source) => new Chapter(source));

const shortRoute = chapters.filter(({ source }) => SHORT.includes(source.id));

/** The chapters of the reader's route. */
export const onRoute = computed(() => (route.value === 'short' ? shortRoute : chapters));

export function numberOf(chapter: Chapter): number {
  return chapters.indexOf(chapter) + 1;
}
