// The guided tour: what each step explains, and the state in which it shows it.

/** Parts of the chapter that can be pointed at; `an-` and this is the id of the element. */
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
  unstable?: boolean; // false unless said
  residual?: boolean; // true unless said
}

export const TOUR: readonly TourStep[] = [
  {
    part: 'picture',
    title: 'Where we are',
    text:
      'The marked boxes are Add & Norm. One stands after every attention and every ' +
      'feed-forward network. We now open one of them.',
  },
  {
    part: 'split',
    title: 'The split',
    text:
      'A token comes in as a vector x: five numbers here, hundreds or thousands in a real ' +
      'model. It goes two ways.',
  },
  {
    part: 'identity',
    title: 'The highway',
    text:
      'The cyan path, the residual connection, does nothing. It carries x forward as it is. ' +
      'Each cyan bar is one number of x.',
  },
  {
    part: 'branch',
    title: 'The diversion',
    text:
      'The orange path goes through the sublayer: attention or the feed-forward network. What ' +
      'comes out is F(x). It is given here; you can drag its bars.',
  },
  {
    part: 'merge',
    title: 'The merge',
    text:
      'Add: the two vectors are added, number by number. The sum s = x + F(x) is x with the ' +
      'change that F makes.',
  },
  {
    part: 'b1',
    title: 'Measure',
    text:
      'Norm begins with two numbers of s: its mean μ, the dashed line, and its standard ' +
      'deviation σ, how far the bars lie from that line.',
  },
  {
    part: 'b2',
    title: 'The stabilizer',
    text:
      'Subtract μ, divide by σ. The bars now balance around zero, with standard deviation 1. ' +
      'No bar of five can be longer than 2.',
  },
  {
    part: 'b3',
    title: 'Scale and shift',
    text:
      'γ scales, β shifts. A model learns both, one pair for each feature. Here one slider ' +
      'sets all five: try them.',
  },
  {
    part: 'merge',
    title: 'Instability',
    text:
      'We have multiplied F(x) by ten, as if the sublayer were unstable. The sum s turns red. ' +
      'Bars that leave the chart are cut off, and keep their label.',
    unstable: true,
  },
  {
    part: 'b2',
    title: 'Back in range',
    text:
      'After the norm every bar is again between −2 and 2. However large s is, x̂ ' +
      'is of this size.',
    unstable: true,
  },
  {
    part: 'comparison',
    title: 'In range is not the same',
    text:
      'F was scaled, x was not. So x̂ moves toward LayerNorm(F). The cosines show how far; σ ' +
      'grows, and the gradient shrinks.',
    unstable: true,
  },
  {
    part: 'identity',
    title: 'Without the highway',
    text:
      'Now the residual is off: the identity path carries zeros. x itself goes no further, only ' +
      'F(x) does. Now, and only now, x̂ is the same for F and for ten times F.',
    unstable: true,
    residual: false,
  },
  {
    part: 'controls',
    title: 'Your turn',
    text:
      'All is as it was before the tour. Drag bars, draw new values, inject, switch the residual off. Undo ' +
      'takes back every change, and the link keeps what you see.',
  },
];
