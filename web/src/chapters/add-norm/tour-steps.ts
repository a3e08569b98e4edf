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
    text: t`The marked boxes are Add & Norm. One stands after every attention and every feed-forward
      network. We now open one of them.`,
  },
  {
    part: 'split',
    title: t`The split`,
    text: t`A token comes in as a vector x: five numbers here, hundreds or thousands in a real model.
      It goes two ways.`,
  },
  {
    part: 'identity',
    title: t`The highway`,
    text: t`The cyan path, the residual connection, does nothing. It carries x forward as it is. Each
      cyan bar is one number of x.`,
  },
  {
    part: 'branch',
    title: t`The diversion`,
    text: t`The orange path goes through the sublayer: attention or the feed-forward network. What
      comes out is F(x). It is given here; you can drag its bars.`,
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
    text: t`Norm begins with two numbers of s: its mean μ, the dashed line, and its standard deviation
      σ, how far the bars lie from that line.`,
  },
  {
    part: 'b2',
    title: t`The stabilizer`,
    text: t`Subtract μ, divide by σ. The bars now balance around zero, with standard deviation 1. No
      bar of five can be longer than 2.`,
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
      Bars that leave the chart are cut off, and keep their label.`,
    unstable: true,
  },
  {
    part: 'b2',
    title: t`Back in range`,
    text: t`After the norm every bar is again between −2 and 2. However large s is, x̂ is of this
      size.`,
    unstable: true,
  },
  {
    part: 'comparison',
    title: t`In range is not the same`,
    text: t`F was scaled, x was not. So x̂ moves toward LayerNorm(F). The cosines show how far; σ
      grows, and the gradient shrinks.`,
    unstable: true,
  },
  {
    part: 'identity',
    title: t`Without the highway`,
    text: t`Now the residual is off: the identity path carries zeros. x itself goes no further, only
      F(x) does. Now, and only now, x̂ is the same for F and for ten times F.`,
    unstable: true,
    residual: false,
  },
  {
    part: 'controls',
    title: t`Your turn`,
    text: t`All is as it was before the tour. Drag bars, draw new values, inject, switch the residual
      off. Undo takes back every change, and the link keeps what you see.`,
  },
];
