// Draws the lanes of the hero: a band for the stream and a line for the gradient of each token.

import type { Colour, Picture, Point } from './picture';

export interface Paint {
  gradient: Colour; // --gradient
  broken: Colour; // --broken
  isDark: boolean;
}

type Context = CanvasRenderingContext2D;

export interface Size {
  width: number;
  height: number;
}

/** The offsets of the stream's band and the gradient's line, in distances between two tokens. */
const STREAM_AT = -0.1;
const GRADIENT_AT = 0.35;

/** The width for a size, relative to that for size 1: a size of 1000 is
 * drawn about 18 times as wide. */
function widthOf(log: number): number {
  return Math.exp(0.42 * Math.max(-9, Math.min(8, log)));
}

/** The opacity for a size: at a thousandth, the lane is barely visible. */
function alphaOf(log: number): number {
  return Math.max(0.07, Math.min(1, 1 + log / 3));
}

/** The degree to which a size is unusable for a layer: from 0 at 20 times to 1
 * at 300 times the initial size. */
function brokenOf(log: number): number {
  return Math.max(0, Math.min(1, (log - 1.3) / 1.2));
}

function mix(a: Colour, b: Colour, f: number): Colour {
  return [0, 1, 2].map((i) => a[i] + f * (b[i] - a[i])) as unknown as Colour;
}

function css([red, green, blue]: Colour, alpha: number): string {
  const byte = (v: number) => Math.round(255 * v);
  return `rgb(${byte(red)} ${byte(green)} ${byte(blue)} / ${alpha.toFixed(3)})`;
}

/** A lane's stream or gradient at one height. */
interface Band {
  x: number;
  y: number;
  half: number; // half of the width
  colour: Colour;
  alpha: number;
}

type Kind = 'stream' | 'gradient';

/** The shapes of one token. */
export type Lane = Record<Kind, Band[]>;

/** The number of bands per layer, for smooth curves. */
const FINE = 4;

export function lanesOf(picture: Picture, size: Size, paint: Paint): Lane[] {
  const room = size.width / picture.length;
  return picture.map((lane) => ({
    stream: rounded(bandsOf(lane, 'stream', room, size, paint)),
    gradient: rounded(bandsOf(lane, 'gradient', room, size, paint)),
  }));
}

function bandsOf(lane: Point[], kind: Kind, room: number, size: Size, paint: Paint): Band[] {
  const isStream = kind === 'stream';
  const base = Math.min(5, Math.max(1, room * 0.14)) * (isStream ? 1 : 0.26);
  return lane.map((point, place) => {
    const log = point[kind];
    const own = isStream ? point.colour : paint.gradient;
    const colour = paint.isDark ? own : mix(own, [0, 0, 0], 0.12);
    return {
      x: point.at * size.width + room * (isStream ? STREAM_AT : GRADIENT_AT),
      y: size.height * (1 - place / (lane.length - 1)),
      half: Math.min(room * 1.6, base * widthOf(log)),
      colour: mix(colour, paint.broken, brokenOf(log)),
      alpha: alphaOf(log),
    };
  });
}

/** Adds bands in between, on a smooth curve that does not overshoot the layers' positions. */
function rounded(bands: Band[]): Band[] {
  const last = bands.length - 1;
  const step = (i: number) => bands[i + 1].x - bands[i].x;
  const slope = (i: number) => {
    if (i === 0 || i === last) return 0;
    const [before, after] = [step(i - 1), step(i)];
    return before * after > 0 ? (2 * before * after) / (before + after) : 0;
  };
  return Array.from({ length: last * FINE + 1 }, (_, i) => {
    const at = Math.min(last - 1, Math.floor(i / FINE));
    const f = i / FINE - at;
    const [leaves, arrives] = [slope(at), slope(at + 1)];
    const bend = f * (1 - f) * ((1 - f) * (leaves - step(at)) + f * (step(at) - arrives));
    const band = bandAt(bands, i / FINE);
    return { ...band, x: band.x + bend };
  });
}

/** The interpolated band at a position. */
function bandAt(bands: Band[], place: number): Band {
  const below = Math.min(bands.length - 2, Math.max(0, Math.floor(place)));
  const f = place - below;
  const [a, b] = [bands[below], bands[below + 1]];
  const number = (key: 'x' | 'y' | 'half' | 'alpha') => a[key] + f * (b[key] - a[key]);
  return {
    x: number('x'),
    y: number('y'),
    half: number('half'),
    alpha: number('alpha'),
    colour: mix(a.colour, b.colour, f),
  };
}

/** Fills a lane; its colour changes from layer to layer. */
function fillBand(context: Context, bands: Band[], { height }: Size, wider: number, alpha: number) {
  const colours = context.createLinearGradient(0, height, 0, 0);
  bands.forEach((band, i) =>
    colours.addColorStop(i / (bands.length - 1), css(band.colour, band.alpha * alpha)),
  );
  context.fillStyle = colours;
  context.beginPath();
  bands.forEach(({ x, y, half }) => context.lineTo(x - half * wider, y));
  bands.toReversed().forEach(({ x, y, half }) => context.lineTo(x + half * wider, y));
  context.fill();
}

/** The width and opacity of the glow around a stream, from the outside to its core. */
const GLOW = [
  [3.4, 0.06],
  [2.4, 0.09],
  [1.6, 0.14],
  [1, 0.75],
] as const;

/** Draws everything that does not move. */
export function drawLanes(context: Context, lanes: Lane[], size: Size, paint: Paint): void {
  context.clearRect(0, 0, size.width, size.height);
  context.globalCompositeOperation = paint.isDark ? 'lighter' : 'source-over';
  for (const { gradient } of lanes) fillBand(context, gradient, size, 1, 0.7);
  for (const [wider, alpha] of GLOW) {
    for (const { stream } of lanes) fillBand(context, stream, size, wider, alpha);
  }
  context.globalCompositeOperation = 'source-over';
}

const TRAIL = 7;
const SPACING = 0.9; // bands

/** Draws a spark and its trail at a position of a lane, except for parts outside the lane. */
function drawSpark(context: Context, bands: Band[], place: number, way: 1 | -1, isDark: boolean) {
  const last = bands.length - 1;
  for (let i = TRAIL; i >= 0; --i) {
    const at = place - way * i * SPACING;
    if (at < 0 || at > last) continue;
    const { x, y, half, colour, alpha } = bandAt(bands, at);
    const strength = alpha * (1 - i / (TRAIL + 1)) ** 1.5;
    const radius = Math.min(14, 1.1 * half + 1.2) * (1 - (0.6 * i) / TRAIL);
    const core = mix(colour, isDark ? [1, 1, 1] : [0, 0, 0], i === 0 ? 0.75 : 0.3);
    context.fillStyle = css(core, strength);
    context.beginPath();
    context.arc(x, y, radius, 0, 2 * Math.PI);
    context.fill();
  }
}

/** Milliseconds: the time of the signal's way up and of the gradient's way down, and the delay from
 * the first token of the sentence to the last. */
const WAY = 1900;
const DELAY = 700;
const CYCLE = 2 * (WAY + DELAY);

/** Draws everything that moves: the signal goes up, then the gradient comes back. */
export function drawSparks(context: Context, lanes: Lane[], paint: Paint, time: number): void {
  const now = time % CYCLE;
  const [kind, way] = now < CYCLE / 2 ? (['stream', 1] as const) : (['gradient', -1] as const);
  context.globalCompositeOperation = paint.isDark ? 'lighter' : 'source-over';
  lanes.forEach((lane, t) => {
    const last = lane[kind].length - 1;
    const turn = way === 1 ? t : lanes.length - 1 - t;
    const gone = ((now % (CYCLE / 2)) - (DELAY * turn) / lanes.length) / WAY;
    const climbed = gone * (last + TRAIL * SPACING);
    drawSpark(context, lane[kind], way === 1 ? climbed : last - climbed, way, paint.isDark);
  });
  context.globalCompositeOperation = 'source-over';
}
