import { t } from '../../language/text';

/** The speaker's notes, one for each step of a presentation. */
export const notes = [
  t`Take numbers from the room and type them. With LayerNorm and RMSNorm the next steps differ; begin with LayerNorm.`,
  t`Say the mean before you show it. The dashed line is where the bars balance.`,
  t`σ is about how far a typical bar lies from the mean. Point at ε: it matters only where all values are nearly equal.`,
  t`Mean 0, deviation 1. Ask what would change if every number were ten times as large. Nothing would.`,
  t`γ and β are learned. Move γ: the picture keeps its shape. Here one pair serves all features, in a model each feature has its own.`,
  t`The same dots three times. The norm moves and stretches; the order and the shape stay.`,
  t`Press Add 10, then Times 10. x̂ stays the same up to rounding: this is what the norm cannot see.`,
];
