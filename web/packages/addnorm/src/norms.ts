// Norms as data, and the arguments of a call on them.

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

/** A norm as data: y = γ·x̂ + β with x̂ = (s − mean)/deviation, where "rms" has mean 0. */
export interface NormOptions {
  /** Which values share a mean and a deviation: "layer" and "rms" the features of a row, "batch" a
   * channel over all rows, "instance" a channel of a row, "group" a group of its channels.
   * "layer" if left out. */
  kind?: Kind;
  /** From 0 to 1e30; 1e-5 if left out. */
  epsilon?: number;
  /** deviation = √(variance + ε), or √variance + ε; "variance" if left out. */
  epsilonAt?: EpsilonAt;
  /** Divided by n or by n − 1; "population" if left out. */
  variance?: Variance;
  /** "one_plus": γ stands for 1 + γ, as Gemma stores it; "plain" if left out. */
  gammaForm?: (typeof GAMMA_FORMS)[number];
  /** Of kind "group", must divide the channels; 1 if left out. */
  groups?: number;
}

/** How values are arranged: row by row. */
export interface Shape {
  /** Values in a row. */
  features: number;
  /** Follows from the features; checked if given. */
  rows?: number;
  /** Of norms over channels: a row holds the positions of its first channel, then of the next. As
   * many as there are features if left out. */
  channels?: number;
}

/** γ and β are one for each feature, or for each channel of norms over channels; 1 and 0 if left out. */
export interface AddNormOptions<V extends Values> extends NormOptions, Shape {
  gamma?: V | null;
  beta?: V | null;
}

export interface AddNormBackwardOptions<V extends Values> extends NormOptions, Shape {
  gamma?: V | null;
  /** The gradient that reaches the sum past the norm; none if left out. */
  dResidual?: V | null;
}

/** One value for each set of values that is normalized together, set by set. */
export interface Statistics<V extends Values> {
  mean: V;
  /** Without ε; of "rms" the mean square. */
  variance: V;
  /** With ε. */
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

/** The fields of addnorm_norm_options. */
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

/** The norm of a block's sublayers: one of rows. */
export function blockNormFields(o: NormOptions) {
  checkNames(o, NORM_NAMES);
  placeOf('the kind of a block’s norm', o.kind ?? 'layer', ['layer', 'rms']);
  return normFields(o);
}

export type NormCall = ReturnType<typeof normCall>;

/** What the module needs for a call on `values`, and how many values γ and β have. Throws unless
 * `values` has whole rows, and γ what belongs to them. */
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
