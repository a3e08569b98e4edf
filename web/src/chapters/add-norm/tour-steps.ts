// The guided tour: the explanation of each step, and the state of the chapter that it shows.

import { t } from '../../language/text';

/** The parts of the chapter that the tour highlights. The id of the
 * element is `an-` and the part's name. */
export type Part =
  | 'picture'
  | 'split'
  | 'identity'
  | 'branch'
  | 'merge'
  | 'b1'
  | 'b2'
  | 'b3'
  | 'comparison'
  | 'controls';

interface TourStep {
  part: Part;
  title: string;
  text: string;
  unstable?: boolean; // default: false
  residual?: boolean; // default: true
}

export const TOUR: readonly TourStep[] = [
  {
    part: 'picture',
    title: t`Where we are`,
    text: t`The marked boxes are Add & Norm. There is one after every attention sublayer and every
      feed-forward network. We now open one of them.`,
  },
  {
    part: 'split',
    title: t`The split`,
    text: t`A token comes in as a vector x: five numbers here, hundreds or thousands in a real
      model. It takes two paths.`,
  },
  {
    part: 'identity',
    title: t`The highway`,
    text: t`The turquoise path, the residual connection, carries x forward unchanged. Each turquoise bar is
      one number of x.`,
  },
  {
    part: 'branch',
    title: t`The diversion`,
    text: t`The orange path goes through the sublayer: attention or the feed-forward network. Its
      output is F(x). Here F(x) is set by hand: you can drag its bars.`,
  },
  {
    part: 'merge',
    title: t`The merge`,
    text: t`Add: the two vectors are added, number by number. The sum s = x + F(x) is x with the
      change that F makes.`,
  },
  {
    part: 'b1',
    title: t`Measure`,
    text: t`The norm first computes two numbers from s. The dashed line is the mean μ. The standard
      deviation σ says how far the bars typically lie from that line.`,
  },
  {
    part: 'b2',
    title: t`The stabilizer`,
    text: t`Subtract μ, then divide by σ. The bars now balance around zero, with standard deviation
      1. With five values no bar can be longer than 2.`,
  },
  {
    part: 'b3',
    title: t`Scale and shift`,
    text: t`γ scales, β shifts. A model learns both, one pair for each feature. Here one slider sets
      all five: try them.`,
  },
  {
    part: 'merge',
    title: t`Instability`,
    text: t`We have multiplied F(x) by ten, as if the sublayer were unstable. The sum s turns red.
      Its bars burst out of their frame; their labels show the values.`,
    unstable: true,
  },
  {
    part: 'b2',
    title: t`Back in range`,
    text: t`After the norm every bar is again between −2 and 2. x̂ has this size, however large s
      is.`,
    unstable: true,
  },
  {
    part: 'comparison',
    title: t`In range, but not the same`,
    text: t`F was scaled, but x was not. So x̂ turns towards LayerNorm(F). The cosines show how far.
      σ grows, and the gradient shrinks.`,
    unstable: true,
  },
  {
    part: 'b2',
    title: t`Without the highway`,
    text: t`Now the residual is off: the identity path carries zeros, and only F(x) reaches the
      norm. Only in this case is x̂ the same for F and for ten times F.`,
    unstable: true,
    residual: false,
  },
  {
    part: 'controls',
    title: t`Your turn`,
    text: t`All settings are as they were before the tour. Drag bars, draw new values, inject
      instability, or switch the residual off. Undo reverts each change, and the link keeps your
      settings.`,
  },
];
