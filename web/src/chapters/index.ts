// The chapters, in their order. One folder each: view.tsx is what is seen, state.ts what can be
// changed.

import type { FunctionComponent } from 'preact';
import { AddNorm } from './add-norm/view';
import { Axes } from './axes/view';
import { Backward } from './backward/view';
import { BlockChapter } from './block/view';
import { Highway } from './highway/view';
import { PlacementChapter } from './placement/view';
import { Quiz } from './quiz/view';
import { StepByStep } from './step-by-step/view';

export interface Chapter {
  id: string;
  title: string;
  View: FunctionComponent;
}

export const chapters: Chapter[] = [
  { id: 'add-norm', title: 'Add & Norm', View: AddNorm },
  { id: 'step-by-step', title: 'Step by step', View: StepByStep },
  { id: 'backward', title: 'Backward', View: Backward },
  { id: 'axes', title: 'Which axes', View: Axes },
  { id: 'highway', title: 'The highway', View: Highway },
  { id: 'placement', title: 'Where the norm goes', View: PlacementChapter },
  { id: 'block', title: 'The block', View: BlockChapter },
  { id: 'quiz', title: 'Quiz', View: Quiz },
];
