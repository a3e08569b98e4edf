// The space of three features in an orthographic projection, and the curves
// on which a norm's output lies.

import type { Point } from '../../ui/marks';
import type { TokenNorm } from '../../ui/names';
import { dot, length } from '../../ui/vectors';

export type Vector = readonly number[]; // has three features

export interface Space {
  place(v: Vector): Point;
  /** The distance of a point in front of the origin. */
  depth(v: Vector): number;
  /** The move in space that is parallel to the picture and appears as this move in pixels. */
  lift(dx: number, dy: number): Vector;
  right: Vector;
  up: Vector;
  towards: Vector; // unit vector towards the viewer
}

export interface View {
  turn: number; // degrees around the axis of feature 3
  tilt: number; // degrees above the plane of features 1 and 2
}

/** The projection of a view. The drawing shows at least the points within `reach` of the origin. */
export function spaceOf(view: View, width: number, height: number, reach: number): Space {
  const [turn, tilt] = [view.turn, view.tilt].map((degrees) => (degrees * Math.PI) / 180);
  const [c, s] = [Math.cos(turn), Math.sin(turn)];
  const [flat, steep] = [Math.cos(tilt), Math.sin(tilt)];
  const right = [-s, c, 0];
  const up = [-steep * c, -steep * s, flat];
  const towards = [flat * c, flat * s, steep];
  const unit = Math.min(width, height) / 2 / reach;
  return {
    place: (v) => [width / 2 + unit * dot(v, right), height / 2 - unit * dot(v, up)],
    depth: (v) => dot(v, towards),
    lift: (dx, dy) => add(times(right, dx / unit), times(up, -dy / unit)),
    right,
    up,
    towards,
  };
}

export function add(a: Vector, b: Vector): Vector {
  return a.map((v, i) => v + b[i]);
}

export function times(a: Vector, factor: number | Vector): Vector {
  return a.map((v, i) => v * (typeof factor === 'number' ? factor : factor[i]));
}

export function cross([a, b, c]: Vector, [d, e, f]: Vector): Vector {
  return [b * f - c * e, c * d - a * f, a * e - b * d];
}

/** The length of every x̂, up to ε: the mean of its three squares is 1. */
export const RADIUS = Math.sqrt(3);

/** The direction in which all features are equal. */
export const ONES: Vector = [1, 1, 1];

/** A closed curve; `front` says whether the segment from this point faces the viewer. */
export type Curve = { at: Vector; front: boolean }[];

const PARTS = 96;
const angles = Array.from({ length: PARTS + 1 }, (_, i) => (2 * Math.PI * i) / PARTS);

function circle(a: Vector, b: Vector): Vector[] {
  return angles.map((t) => add(times(a, RADIUS * Math.cos(t)), times(b, RADIUS * Math.sin(t))));
}

/** The map from x̂ to y: scaled by γ and shifted by β. */
export interface Affine {
  gamma: Vector;
  beta: Vector;
}

export const UNCHANGED: Affine = { gamma: [1, 1, 1], beta: [0, 0, 0] };

const moved = (v: Vector, { gamma, beta }: Affine) => add(times(v, gamma), beta);

/** The output of LayerNorm: a circle in the plane of vectors whose features sum to 0. */
export function layerCurve(space: Space, affine = UNCHANGED): Curve {
  const a = [Math.SQRT1_2, -Math.SQRT1_2, 0];
  const b = [1, 1, -2].map((v) => v / Math.sqrt(6));
  return circle(a, b).map((v) => {
    const at = moved(v, affine);
    return { at, front: space.depth(at) >= space.depth(affine.beta) };
  });
}

/** The output of RMSNorm, a sphere or ellipsoid: its outline, … */
export function outline(space: Space, affine = UNCHANGED): Vector[] {
  return circle(space.right, space.up).map((v) => {
    const stretched = times(v, affine.gamma);
    return moved(times(stretched, RADIUS / (length(stretched) || 1)), affine);
  });
}

/** … and three circles on it where one feature of x̂ is 0. */
export function meridians(space: Space, affine = UNCHANGED): Curve[] {
  const axes = [0, 1, 2].map((i) => [0, 1, 2].map((j) => (i === j ? 1 : 0)));
  const normal = affine.gamma.map((v, i) => space.towards[i] / Math.max(v, 1e-6));
  return axes.map((axis, i) =>
    circle(axis, axes[(i + 1) % 3]).map((v) => ({
      at: moved(v, affine),
      front: dot(v, normal) >= 0,
    })),
  );
}

const DISC = 0.8;

/** The directions in which x̂ can move: along a line in LayerNorm, in a plane in RMSNorm. */
export function tangentDisc(kind: TokenNorm, at: Vector): Vector[] {
  const unit = (v: Vector) => times(v, DISC / (length(v) || 1));
  if (kind === 'layer') return [-1, 1].map((sign) => add(at, times(unit(cross(ONES, at)), sign)));
  const first = cross(at, Math.abs(at[2]) < 1 ? [0, 0, 1] : [1, 0, 0]);
  const [a, b] = [unit(first), unit(cross(at, first))];
  return angles.map((t) => add(at, add(times(a, Math.cos(t)), times(b, Math.sin(t)))));
}
