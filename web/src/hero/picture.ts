// The shape of the lanes: converts a measurement into sizes, colours and positions.

import type { TokenMeasurement } from '../kernels/kernels';
import { mean } from '../ui/vectors';

export type Colour = readonly [red: number, green: number, blue: number]; // from 0 to 1

/** A point of a lane at one layer. */
export interface Point {
  at: number; // from 0 to 1, left to right
  stream: number; // decimal logarithm of the RMS over that of the first layer's tokens
  gradient: number; // likewise, relative to that of the last layer's tokens
  colour: Colour;
}

/** The points of each token's lane, from the first layer to the end. */
export type Picture = Point[][];

/** The angle within which tokens count as similar and share their colour.
 * Cosines above 0.99 differ by less. */
const ALIKE_ANGLE = (8 * Math.PI) / 180;

/** The degree to which lanes of the same direction are drawn closer together. */
const PULL = 0.55;

export function pictureOf(measured: TokenMeasurement): Picture {
  const { tokens, stream, gradient } = measured;
  const places = stream.length / tokens;
  const start = mean([...stream.subarray(0, tokens)]);
  const end = mean([...gradient.subarray(-tokens)]);
  const size = (value: number) => (Number.isFinite(value) ? Math.log10(value) : Infinity);
  return Array.from({ length: tokens }, (_, t) =>
    Array.from({ length: places }, (_, place) => ({
      stream: size(stream[place * tokens + t] / start),
      gradient: size(gradient[place * tokens + t] / end),
      ...among(measured, place, t),
    })),
  );
}

/** A token's position and colour: means over all tokens, weighted by token similarity. */
function among({ tokens, cosine }: TokenMeasurement, place: number, t: number) {
  const row = cosine.subarray((place * tokens + t) * tokens, (place * tokens + t + 1) * tokens);
  const weights = Array.from(row, (c, u) => (u === t ? 1 : likeness(c)));
  const total = weights.reduce((sum, w) => sum + w, 0);
  const average = (value: (u: number) => number) =>
    weights.reduce((sum, w, u) => sum + w * value(u), 0) / total;
  const [red, green, blue] = [0, 1, 2].map((i) => average((u) => ownColour(u, tokens)[i] ** 2));
  const own = (t + 0.5) / tokens;
  return {
    at: own + PULL * (average((u) => (u + 0.5) / tokens) - own),
    colour: [Math.sqrt(red), Math.sqrt(green), Math.sqrt(blue)] as const,
  };
}

/** The similarity: 1 for the same direction, nearly 0 from three times the angle on. */
function likeness(cosine: number): number {
  if (!Number.isFinite(cosine)) return 0;
  const angle = Math.acos(Math.min(1, cosine));
  return Math.exp(-((angle / ALIKE_ANGLE) ** 2) / 2);
}

/** The hues from cyan over blue and red to yellow, in the order of the sentence. */
export function ownColour(t: number, tokens: number): Colour {
  const hue = 185 + (235 * t) / tokens;
  const channel = (n: number) => {
    const k = (n + hue / 30) % 12;
    return 0.58 - 0.42 * Math.max(-1, Math.min(k - 3, 9 - k, 1));
  };
  return [channel(0), channel(8), channel(4)];
}

/** Interpolates between two pictures. `fraction` may differ from layer to layer. */
export function between(
  from: Picture,
  to: Picture,
  fraction: { stream(place: number): number; gradient(place: number): number },
): Picture {
  const mix = (a: number, b: number, f: number) =>
    f <= 0 ? a : f >= 1 || !Number.isFinite(a + b) ? b : a + f * (b - a);
  return to.map((lane, t) =>
    lane.map((point, place) => {
      const old = from[t][place];
      const f = fraction.stream(place);
      return {
        at: mix(old.at, point.at, f),
        stream: mix(old.stream, point.stream, f),
        gradient: mix(old.gradient, point.gradient, fraction.gradient(place)),
        colour: [0, 1, 2].map((i) => mix(old.colour[i], point.colour[i], f)) as unknown as Colour,
      };
    }),
  );
}
