// The options of norms, and the arguments of a call.

import {
  check,
  checkCount,
  checkLike,
  checkNames,
  checkType,
  checkValues,
  placeOf,
} from './check.js';
import type { Values } from './instance.js';

export const KINDS = ['layer', 'rms', 'batch', 'instance', 'group'] as const;
export const EPSILON_AT = ['variance', 'deviation'] as const;
export const VARIANCES = ['population', 'unbiased'] as const;
export const GAMMA_FORMS = ['plain', 'one_plus'] as const;

export type Kind = (typeof KINDS)[number];
export type EpsilonAt = (typeof EPSILON_AT)[number];
export type Variance = (typeof VARIANCES)[number];

/** The options of a norm y = γ·x̂ + β with x̂ = (s − mean)/deviation. For "rms" the mean is 0. */
export interface NormOptions {
  /** The set of values that share a mean and a deviation: the features of a row for "layer" and
   * "rms", a channel over all rows for "batch", a channel of a row for "instance", and a group of
   * its channels for "group". The default is "layer". */
  kind?: Kind;
  /** A number from 0 to 1e30. The default is 1e-5. */
  epsilon?: number;
  /** deviation = √(variance + ε), or √variance + ε. The default is "variance". */
  epsilonAt?: EpsilonAt;
  /** The divisor of the variance: n or n − 1. The default is "population", n. */
  variance?: Variance;
  /** "one_plus": the factor is 1 + γ, as Gemma stores it. The default is "plain". */
  gammaForm?: (typeof GAMMA_FORMS)[number];
  /** The number of groups for kind "group"; must divide the channels. The default is 1. */
  groups?: number;
}

/** The arrangement of the values: row by row. */
export interface Shape {
  /** The number of values in a row. */
  features: number;
  /** The number of rows. It follows from the features, and is checked if given. */
  rows?: number;
  /** The number of channels, for norms over channels. A row holds the positions of its first
   * channel, then those of the next. The default is the number of features. */
  channels?: number;
}

/** γ and β have one value per feature, or per channel for norms over
 * channels. They default to 1 and 0. */
export interface AddNormOptions<V extends Values> extends NormOptions, Shape {
  gamma?: V | null;
  beta?: V | null;
}

export interface AddNormBackwardOptions<V extends Values> extends NormOptions, Shape {
  gamma?: V | null;
  /** The gradient that reaches the sum past the norm. The default is none. */
  dResidual?: V | null;
}

/** One value for each set of values that is normalized together, set by set. */
export interface Statistics<V extends Values> {
  mean: V;
  /** The variance without ε; for "rms" the mean square. */
  variance: V;
  /** The deviation with ε. */
  deviation: V;
}

export interface AddNormResult<V extends Values> {
  y: V;
  sum: V;
  statistics: Statistics<V>;
}

export interface NormGradients<V extends Values> {
  dx: V;
  dGamma: V;
  dBeta: V;
}

const NORM_NAMES: (keyof NormOptions)[] = [
  'kind',
  'epsilon',
  'epsilonAt',
  'variance',
  'gammaForm',
  'groups',
];
const SHAPE_NAMES: (keyof Shape)[] = ['features', 'rows', 'channels'];
export const FORWARD_NAMES = [...NORM_NAMES, ...SHAPE_NAMES, 'gamma', 'beta'];
export const BACKWARD_NAMES = [...NORM_NAMES, ...SHAPE_NAMES, 'gamma', 'dResidual'];

export function normFields(o: NormOptions) {
  const { epsilon = 1e-5, groups = 1 } = o;
  checkType('epsilon', epsilon, 'number');
  checkCount('groups', groups);
  return {
    kind: placeOf('kind', o.kind ?? 'layer', KINDS),
    epsilon,
    epsilonAt: placeOf('epsilonAt', o.epsilonAt ?? 'variance', EPSILON_AT),
    variance: placeOf('variance', o.variance ?? 'population', VARIANCES),
    gammaForm: placeOf('gammaForm', o.gammaForm ?? 'plain', GAMMA_FORMS),
    groups,
  };
}

/** The fields of a block's norm, which must be "layer" or "rms". */
export function blockNormFields(o: NormOptions) {
  checkNames(o, NORM_NAMES);
  placeOf('the kind of a block’s norm', o.kind ?? 'layer', ['layer', 'rms']);
  return normFields(o);
}

export type NormCall = ReturnType<typeof normCall>;

/** The norm and shape of a call on `values`, and the number of values of γ and β. Throws unless
 * `values` has whole rows and γ has the matching length. */
export function normCall(
  name: string,
  values: Values,
  options: AddNormBackwardOptions<Values>,
  names: readonly string[],
) {
  checkNames(options, names);
  checkValues(name, values);
  const { features, channels = features, gamma } = options;
  checkCount('features', features);
  const { rows = values.length / features } = options;
  if (options.rows !== undefined) checkCount('rows', rows);
  checkCount('channels', channels);
  check(features % channels === 0, `channels is ${channels}, must divide the ${features} features`);
  check(
    Number.isInteger(rows) && rows * features === values.length,
    `${name} has ${values.length} values, must have ${options.rows ?? 'whole'} rows of ${features}`,
  );
  const norm = normFields(options);
  const parameters = norm.kind < KINDS.indexOf('batch') ? features : channels;
  checkLike('gamma', gamma, values, parameters);
  return { norm, rows, features, positions: features / channels, parameters };
}
