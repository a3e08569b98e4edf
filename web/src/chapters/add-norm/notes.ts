import { t } from '../../language/text';

/** The speaker's notes, one for each step of a presentation. */
export const notes = [
  t`Ask who has used a Transformer. Every one of these boxes is an Add & Norm: two in each encoder layer, three in each decoder layer. Today we open one.`,
  t`Drag a bar of x and let them watch s. Then drag F(x). Both paths meet in one sum, number by number. Press Inject Instability: the sum leaves its chart.`,
  t`Go from left to right: measure, normalize, scale and shift. Press Inject Instability on the step before and come back: the bars of x̂ stay in range.`,
  t`Let the room guess first: is x̂ the same after F × 10? It is in range, but it points elsewhere: towards LayerNorm(F).`,
  t`Three columns, one x. Look at the last two features: where is the difference between filled and outlined bars gone? Then compare the last row: normalized, or a sum.`,
  t`Open only what somebody asks about. The formula with its ε is worth a minute.`,
];
