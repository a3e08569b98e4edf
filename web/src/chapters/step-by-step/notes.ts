import { t } from '../../language/text';

/** The speaker's notes, one for each step of a presentation. */
export const notes = [
  t`Ask the audience for numbers and type them. The next steps differ between LayerNorm and RMSNorm; begin with LayerNorm.`,
  t`Ask for the mean before you show it. The bars balance at the dashed line.`,
  t`σ is about the distance of a typical bar from the mean. Point at ε: it matters only where all values are nearly equal.`,
  t`Mean 0, deviation 1. Ask what would change if every number were ten times as large. Nothing would.`,
  t`γ and β are learned. Move γ: the picture keeps its shape. Here one pair serves all features; in a model each feature has its own.`,
  t`The code of all four steps. Point at the lines of each step, and let the audience choose the language.`,
  t`The same dots appear three times. The norm moves and stretches them; their order and shape stay
    the same.`,
  t`Press Add 10, then Times 10. x̂ stays the same up to rounding: the norm ignores both changes.`,
];
