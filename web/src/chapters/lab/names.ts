// The names of the program's figures and bugs, in words.

import { t } from '../../language/text';
import type { BUGS, FigureName } from './state';

export const FIGURE_NAMES: Record<FigureName, string> = {
  'gradient-flow': t`gradient flow`,
  'layer-vs-batch': t`layer vs batch`,
  pipeline: t`pipeline`,
  layernorm: t`layernorm`,
  placement: t`placement`,
  variance: t`variance`,
  instability: t`instability`,
  'rank-collapse': t`rank collapse`,
  epsilon: t`epsilon`,
  'norm-backward': t`norm backward`,
  'depth-mixing': t`depth mixing`,
  lanes: t`lanes`,
  'composite-gain': t`composite gain`,
  'post-norm-revived': t`post norm revived`,
  'norm-kinds-by-depth': t`norm kinds by depth`,
};

export const BUG_NAMES: Record<(typeof BUGS)[number], string> = {
  none: t`no bug`,
  'residual-missing': t`residual missing`,
  'residual-twice': t`residual twice`,
  'no-residual': t`no residual`,
  'norm-over-stream': t`norm over stream`,
  'norm-missing': t`norm missing`,
  'final-norm-missing': t`final norm missing`,
  'scale-lost': t`scale lost`,
  'rms-for-layer': t`rms for layer`,
  'alpha-doubled': t`alpha doubled`,
  'one-plus-gamma': t`one plus gamma`,
  'epsilon-outside': t`epsilon outside`,
  'half-statistics': t`half statistics`,
  'transposed-carry': t`transposed carry`,
  'lanes-folded': t`lanes folded`,
  'sinkhorn-rows-only': t`sinkhorn rows only`,
  'write-sigma': t`write sigma`,
};
