// The chapters, in their order. Each has a folder: view.tsx is what a reader sees, state.ts what a
// reader can change.

import type { FunctionComponent } from 'preact';
import type { Item } from '../state/store';
import { state as addNorm } from './add-norm/state';
import { AddNorm } from './add-norm/view';
import { state as axes } from './axes/state';
import { Axes } from './axes/view';
import { state as backward } from './backward/state';
import { Backward } from './backward/view';
import { state as block } from './block/state';
import { BlockChapter } from './block/view';
import { state as highway } from './highway/state';
import { Highway } from './highway/view';
import { state as lab } from './lab/state';
import { LabChapter } from './lab/view';
import { state as placement } from './placement/state';
import { resetTraining } from './placement/train';
import { PlacementChapter } from './placement/view';
import { state as quiz } from './quiz/state';
import { Quiz } from './quiz/view';
import { state as stepByStep } from './step-by-step/state';
import { StepByStep } from './step-by-step/view';

interface Chapter {
  id: string;
  title: string;
  View: FunctionComponent;
  state: Record<string, Item<any>>; // what Reset chapter resets
  reset?(): void; // what it ends besides
}

export const chapters: Chapter[] = [
  { id: 'add-norm', title: 'Add & Norm', View: AddNorm, state: addNorm },
  { id: 'step-by-step', title: 'Step by step', View: StepByStep, state: stepByStep },
  { id: 'backward', title: 'Backward', View: Backward, state: backward },
  { id: 'axes', title: 'Which axes', View: Axes, state: axes },
  { id: 'highway', title: 'The highway', View: Highway, state: highway },
  {
    id: 'placement',
    title: 'Where the norm goes',
    View: PlacementChapter,
    state: placement,
    reset: resetTraining,
  },
  { id: 'block', title: 'The block', View: BlockChapter, state: block },
  { id: 'quiz', title: 'Quiz', View: Quiz, state: quiz },
  { id: 'lab', title: 'The lab', View: LabChapter, state: lab },
];
