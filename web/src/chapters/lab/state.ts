// What a reader can change in chapter 9: which figure, its options, and what is broken.

import { kernels } from '../../kernels/current';
import type { LabRequest } from '../../kernels/lab';
import { choice, number, subset } from '../../state/fields';
import { defineState, type Item } from '../../state/store';

export const BUGS = [
  'none',
  'residual-missing',
  'residual-twice',
  'no-residual',
  'norm-over-stream',
  'norm-missing',
  'final-norm-missing',
  'scale-lost',
  'rms-for-layer',
  'one-plus-gamma',
  'epsilon-outside',
  'half-statistics',
] as const;

export const LAYERS = { min: 1, max: 48, step: 1 };
export const DEPTHS = ['3,6,12', '6,12,24', '6,12,24,48'] as const;
export const STACK_WIDTHS = ['32', '64', '128'] as const;
export const ROW_WIDTHS = ['64', '128', '512'] as const;
export const placementNames = () => kernels.placements().map(({ name }) => name);

/** What a figure can be asked; it has no such option where there is none. */
export interface FigureState {
  layers?: Item<number>;
  depths?: Item<(typeof DEPTHS)[number]>;
  stackWidth?: Item<(typeof STACK_WIDTHS)[number]>;
  rowWidth?: Item<(typeof ROW_WIDTHS)[number]>;
  seeds?: Item<number>;
  placements?: Item<readonly string[]>;
}

const SEEDS = { min: 1, max: 16, step: 1 };
const MORE_SEEDS = { ...SEEDS, max: 64 };
const layers = (initial: number) => number({ ...LAYERS, initial });
const seeds = () => number({ ...SEEDS, initial: 8 });
const rowWidth = (initial: (typeof ROW_WIDTHS)[number]) => choice(ROW_WIDTHS, initial);
const stackWidth = () => choice(STACK_WIDTHS, '64');
const some = (...names: string[]) => subset(placementNames, names);

/** The figures that train nothing, with sizes that at first run within about a second. */
const figures = {
  'gradient-flow': defineState('lab.gradient-flow', {
    layers: layers(12),
    stackWidth: stackWidth(),
    seeds: seeds(),
  }),
  'layer-vs-batch': defineState('lab.layer-vs-batch', { rowWidth: rowWidth('64'), seeds: seeds() }),
  pipeline: defineState('lab.pipeline', { rowWidth: rowWidth('64') }),
  layernorm: defineState('lab.layernorm', { rowWidth: rowWidth('512'), seeds: seeds() }),
  placement: defineState('lab.placement', {
    depths: choice(DEPTHS, '6,12,24'),
    stackWidth: stackWidth(),
    seeds: seeds(),
    placements: some('post', 'pre', 'deepnorm'),
  }),
  variance: defineState('lab.variance', {
    layers: layers(12),
    stackWidth: stackWidth(),
    seeds: number({ ...MORE_SEEDS, initial: 32 }),
    placements: some('none', 'post', 'pre', 'reordered', 'depth-scaled'),
  }),
  instability: defineState('lab.instability', { seeds: seeds() }),
  'rank-collapse': defineState('lab.rank-collapse', {
    layers: layers(24),
    stackWidth: stackWidth(),
    seeds: seeds(),
    placements: some('none', 'plain', 'post', 'pre', 'scaled-branch'),
  }),
  epsilon: defineState('lab.epsilon', { rowWidth: rowWidth('512'), seeds: seeds() }),
  'norm-backward': defineState('lab.norm-backward', { rowWidth: rowWidth('64'), seeds: seeds() }),
} satisfies Record<string, FigureState>;

export type FigureName = keyof typeof figures;
export const FIGURES = Object.keys(figures) as FigureName[];

/** Of the chosen figure. */
export const seedsRange = () => (state.figure.value === 'variance' ? MORE_SEEDS : SEEDS);

const own = defineState('lab', {
  figure: choice(FIGURES, 'gradient-flow'),
  bug: choice(BUGS, 'none'),
  seed: number({ min: 0, max: 9999, step: 1, initial: 0 }),
});

/** Everything that Reset chapter resets. */
export const state: typeof own & Record<string, Item<any>> = {
  ...own,
  ...Object.fromEntries(
    Object.entries(figures).flatMap(([figure, items]) =>
      Object.entries(items).map(([name, item]) => [`${figure}.${name}`, item]),
    ),
  ),
};

/** The options of the chosen figure. */
export function chosenFigure(): FigureState {
  return figures[state.figure.value];
}

/** What the lab is asked. */
export function request(): LabRequest {
  const { layers, depths, stackWidth, rowWidth, seeds, placements } = chosenFigure();
  const width = stackWidth ?? rowWidth;
  return {
    figure: state.figure.value,
    ...(layers && { layers: [layers.value] }),
    ...(depths && { layers: depths.value.split(',').map(Number) }),
    ...(width && { width: Number(width.value) }),
    ...(seeds && { seeds: seeds.value }),
    seed: state.seed.value,
    ...(placements && { placements: placements.value }),
    ...(state.bug.value !== 'none' && { bug: state.bug.value }),
  };
}

/** Where a build of the project has the program. */
export const PROGRAM = 'build/release/bin/addnorm';

/** The same for the program. */
export function command({ figure, layers, width, seeds, seed, placements, bug }: LabRequest) {
  const flags = [
    layers && `--layers ${layers.join()}`,
    width && `--width ${width}`,
    seeds && `--seeds ${seeds}`,
    seed && `--seed ${seed}`,
    placements && `--placement ${placements.join()}`,
    bug && `--break ${bug}`,
  ];
  return [`${PROGRAM} lab`, figure, ...flags.filter(Boolean)].join(' ');
}
