// The state of the lab: the figure, its options, and the bug.

import { kernels } from '../../kernels/current';
import type { LabRequest } from '../../kernels/lab';
import {
  choice,
  number,
  type NumberField,
  seed,
  subset,
  type SubsetField,
} from '../../state/fields';
import { assign, defineState, type Item, type Items } from '../../state/store';

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
  'alpha-doubled',
  'one-plus-gamma',
  'epsilon-outside',
  'half-statistics',
  'transposed-carry',
  'lanes-folded',
  'sinkhorn-rows-only',
  'write-sigma',
] as const;

const placementNames = () => kernels.placements().map(({ name }) => name);
const layers = (initial: number) => number({ min: 1, max: 48, step: 1, initial });
const DEPTHS = ['3,6,12', '6,12,24', '6,12,24,48'];
const depths = (initial = '6,12,24') => choice([...DEPTHS, '6,12,24,48,96'], initial);
const stackWidth = (initial = '64') => choice(['32', '64', '128', '512'], initial);
const rowWidth = (initial: '64' | '512') => choice(['64', '128', '512'], initial);
const seeds = (max = 16, initial = 8) => number({ min: 1, max, step: 1, initial });
const placements = (...names: string[]) => subset(placementNames, names);
const lanePlacements = (...names: string[]) => subset(() => names, names);

type FigureFields = {
  layers: NumberField;
  depths: ReturnType<typeof depths>;
  stackWidth: ReturnType<typeof stackWidth>;
  rowWidth: ReturnType<typeof rowWidth>;
  seeds: NumberField;
  placements: SubsetField;
};

/** The figures that do not train, with their options. With these initial
 * values each takes about a second. */
const fields = {
  'gradient-flow': { layers: layers(12), stackWidth: stackWidth(), seeds: seeds() },
  'layer-vs-batch': { rowWidth: rowWidth('64'), seeds: seeds() },
  pipeline: { rowWidth: rowWidth('64') },
  layernorm: { rowWidth: rowWidth('512'), seeds: seeds() },
  placement: {
    depths: depths(),
    stackWidth: stackWidth(),
    seeds: seeds(),
    placements: placements('post', 'pre', 'deepnorm'),
  },
  variance: {
    layers: layers(12),
    stackWidth: stackWidth(),
    seeds: seeds(64, 32),
    placements: placements('none', 'post', 'pre', 'reordered', 'depth-scaled'),
  },
  instability: { seeds: seeds() },
  'rank-collapse': {
    layers: layers(24),
    stackWidth: stackWidth(),
    seeds: seeds(),
    placements: placements('none', 'plain', 'post', 'pre', 'scaled-branch'),
  },
  epsilon: { rowWidth: rowWidth('512'), seeds: seeds() },
  'norm-backward': { rowWidth: rowWidth('64'), seeds: seeds() },
  'depth-mixing': {
    layers: layers(12),
    placements: lanePlacements(
      'pre',
      'deepnorm',
      'x0',
      'hyper',
      'mhc',
      'dense-former',
      'block-attention-residuals',
    ),
  },
  lanes: {
    layers: layers(24),
    seeds: seeds(),
    placements: lanePlacements('hyper', 'mhc', 'mhc-lite', 'identity-hc', 'wide'),
  },
  'composite-gain': {
    layers: layers(24),
    seeds: seeds(),
    placements: lanePlacements('hyper', 'mhc', 'mhc-lite', 'identity-hc'),
  },
  'post-norm-revived': {
    depths: depths('6,12,24,48,96'),
    stackWidth: stackWidth('512'),
    seeds: seeds(16, 4),
    placements: lanePlacements('post', 'deepnorm', 'keel', 'residual-dual', 'siamese', 'pre'),
  },
  'norm-kinds-by-depth': {
    depths: depths('6,12,24,48'), // its laws hold for stacks that are wider than deep
    stackWidth: stackWidth(),
    seeds: seeds(16, 4),
  },
} satisfies Record<string, Partial<FigureFields>>;

export type FigureName = keyof typeof fields;
export const FIGURES = Object.keys(fields) as FigureName[];

const figures = Object.fromEntries(
  FIGURES.map((name) => [name, defineState(`lab.${name}`, fields[name])]),
) as Record<FigureName, Partial<Items<FigureFields>>>;

/** For each bug, a figure that detects it with its default options. */
export const SEEN_BY: Record<Exclude<(typeof BUGS)[number], 'none'>, FigureName> = {
  'residual-missing': 'gradient-flow',
  'residual-twice': 'gradient-flow',
  'no-residual': 'gradient-flow',
  'norm-over-stream': 'gradient-flow',
  'norm-missing': 'gradient-flow',
  'final-norm-missing': 'gradient-flow',
  'scale-lost': 'placement',
  'rms-for-layer': 'layernorm',
  'alpha-doubled': 'norm-kinds-by-depth',
  'one-plus-gamma': 'gradient-flow',
  'epsilon-outside': 'epsilon',
  'half-statistics': 'layernorm',
  'transposed-carry': 'depth-mixing',
  'lanes-folded': 'lanes',
  'sinkhorn-rows-only': 'composite-gain',
  'write-sigma': 'depth-mixing',
};

const own = defineState('lab', {
  figure: choice(FIGURES, 'gradient-flow'),
  bug: choice(BUGS, 'none'),
  seed: seed(),
});

/** The choice of a figure. It removes the bug, which belongs to the previous figure. */
export const figureChoice = {
  field: own.figure.field,
  problem: own.figure.problem,
  get value() {
    return own.figure.value;
  },
  set value(figure) {
    assign(own, { figure, bug: 'none' });
  },
};

/** Shows a figure and keeps the bug. */
export function showBugIn(figure: FigureName): void {
  assign(own, { figure, bug: own.bug.value });
}

/** All values that Reset chapter resets. */
export const state: typeof own & Record<string, Item<any, any>> = {
  ...own,
  ...Object.fromEntries(
    Object.entries(figures).flatMap(([figure, items]) =>
      Object.entries(items).map(([name, item]) => [`${figure}.${name}`, item]),
    ),
  ),
};

/** The options of the chosen figure. */
export function chosenFigure(): Partial<Items<FigureFields>> {
  return figures[state.figure.value];
}

/** The request to the lab. */
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

/** The path of the program in a build of the project. */
export const PROGRAM = 'build/release/bin/addnorm';

/** The command that runs the same figure with the program. */
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
