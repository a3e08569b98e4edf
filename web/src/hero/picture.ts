// What the lanes look like: a measurement turned into sizes, colours and places.

import type { TokenMeasurement } from '../kernels/kernels';
import { mean } from '../ui/vectors';

export type Colour = readonly [red: number, green: number, blue: number]; // 0 to 1

/** Where a lane passes one layer. */
export interface Point {
  at: number; // 0 to 1, from left to right
  stream: number; // decimal logarithm of the RMS over that of the first layer's tokens
  gradient: number; // likewise over that of the last layer's
  colour: Colour;
}

/** For each token the points of its lane, from the first layer to the end. */
export type Picture = Point[][];

/** Tokens that point the same way within about this angle have the same colour: cosines above 0.99
 * differ by less. */
const ALIKE_ANGLE = (8 * Math.PI) / 180;

/** How far lanes of the same direction are drawn together. */
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

/** A token's place and colour among all: means over the tokens, weighted by how alike they are. */
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

/** 1 of one direction, 0 from three times the angle on. */
function likeness(cosine: number): number {
  if (!Number.isFinite(cosine)) return 0;
  const angle = Math.acos(Math.min(1, cosine));
  return Math.exp(-((angle / ALIKE_ANGLE) ** 2) / 2);
}

/** From cyan over blue and red to yellow, in the order of the sentence. */
export function ownColour(t: number, tokens: number): Colour {
  const hue = 185 + (235 * t) / tokens;
  const channel = (n: number) => {
    const k = (n + hue / 30) % 12;
    return 0.58 - 0.42 * Math.max(-1, Math.min(k - 3, 9 - k, 1));
  };
  return [channel(0), channel(8), channel(4)];
}

/** `fraction` of the way from one picture to another, which may differ from place to place. */
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
