import { t } from '../../language/text';

/** The speaker's notes, one for each step of a presentation. */
export const notes = [
  t`Ask who has used a Transformer. Every one of these boxes is an Add & Norm: two in each encoder layer, three in each decoder layer. Today we open one.`,
  t`Drag a bar of x and let the audience watch s. Then drag F(x). Both paths meet in one sum, number by number. Press Inject Instability: the bars burst out of their frame. In B2 they are first shifted by μ, then divided by σ: x̂ is back in range. Compare it with its outlines. Finally, set γ = σ and β = μ: y is s again.`,
  t`Let the audience guess first: is x̂ the same after F × 10? It is in range, but it has turned towards LayerNorm(F).`,
  t`All three columns get the same x. Ask where the last two features lose the difference between filled and outlined bars. Then compare the last row: post-norm gives a normalized vector, pre-norm a sum.`,
  t`Open a section only if there is a question about it. The formula with its ε is worth a minute.`,
];
