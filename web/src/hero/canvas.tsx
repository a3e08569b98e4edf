// The canvas of the hero: the lanes, the sparks that move along them, and
// the transition to other lanes.

import { useEffect, useRef } from 'preact/hooks';
import { isDark } from '../ui/theme';
import { drawLanes, drawSparks, type Lane, lanesOf, type Paint, type Size } from './lanes';
import { wantsStillness, whileInSight } from '../ui/motion';
import { between, type Colour, type Picture } from './picture';

/** Milliseconds in which new lanes rise and their gradient comes back. */
const RISE = 900;
const SOFT = 0.25; // the part of RISE in which one layer changes

interface CanvasProps {
  name: string;
  picture: Picture | undefined;
}

export function Canvas({ name, picture }: CanvasProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const stage = useRef<Stage | null>(null);
  useEffect(() => {
    const made = new Stage(canvas.current!);
    stage.current = made;
    return () => made.end();
  }, []);
  useEffect(() => stage.current!.show(picture), [picture]);
  useEffect(() => stage.current!.repaint(), [isDark.value]);
  return <canvas class="hero-lanes" ref={canvas} role="img" aria-label={name} />;
}

class Stage {
  #canvas: HTMLCanvasElement;
  #lanes: Lane[] = []; // of #now
  #still = document.createElement('canvas'); // the lanes, drawn once
  #size: Size = { width: 0, height: 0 };
  #from: Picture | undefined;
  #to: Picture | undefined;
  #now: Picture | undefined;
  #began = -Infinity;
  #paint: Paint;
  #ends: (() => void)[];

  constructor(canvas: HTMLCanvasElement) {
    this.#canvas = canvas;
    this.#paint = paintOf(canvas);
    const observer = new ResizeObserver(([{ contentRect }]) => this.#resize(contentRect));
    observer.observe(canvas);
    this.#ends = [() => observer.disconnect(), whileInSight(canvas, (time) => this.#frame(time))];
  }

  end(): void {
    this.#ends.forEach((end) => end());
  }

  /** Shows other lanes. They replace the previous ones in an animation unless
   * the visitor prefers no motion, or types a sentence of another length. */
  show(picture: Picture | undefined): void {
    const isOther = this.#now !== undefined && this.#now.length !== picture?.length;
    this.#from = this.#now ?? (picture && dark(picture));
    this.#to = picture;
    this.#began = performance.now();
    if (picture && (isOther || wantsStillness())) this.#settle();
  }

  /** Draws again in the colours of the current theme. */
  repaint(): void {
    this.#paint = paintOf(this.#canvas);
    this.#drawLanes();
    this.#compose();
  }

  #settle(): void {
    this.#from = undefined;
    this.#now = this.#to;
    this.#drawLanes();
    this.#compose();
  }

  #resize({ width, height }: Size): void {
    const scale = Math.min(2, devicePixelRatio || 1);
    this.#size = { width, height };
    for (const canvas of [this.#canvas, this.#still]) {
      canvas.width = Math.round(width * scale);
      canvas.height = Math.round(height * scale);
      canvas.getContext('2d')!.setTransform(scale, 0, 0, scale, 0, 0);
    }
    this.#drawLanes();
    this.#compose();
  }

  #frame(time: number): void {
    if (this.#from && this.#to) {
      const gone = (time - this.#began) / RISE;
      this.#now = gone >= 2 + SOFT ? this.#to : rising(this.#from, this.#to, gone);
      if (this.#now === this.#to) this.#from = undefined;
      this.#drawLanes();
    }
    this.#compose(time);
  }

  #drawLanes(): void {
    if (this.#now === undefined) return;
    this.#lanes = lanesOf(this.#now, this.#size, this.#paint);
    drawLanes(this.#still.getContext('2d')!, this.#lanes, this.#size, this.#paint);
  }

  #compose(time?: number): void {
    const context = this.#canvas.getContext('2d')!;
    const { width, height } = this.#size;
    if (this.#now === undefined || width === 0) return;
    context.clearRect(0, 0, width, height);
    context.drawImage(this.#still, 0, 0, width, height);
    if (time !== undefined) drawSparks(context, this.#lanes, this.#paint, time);
  }
}

/** The picture at a fraction of the transition: the stream changes from the bottom, then the
 * gradient from the top. */
function rising(from: Picture, to: Picture, gone: number): Picture {
  const last = to[0].length - 1;
  const soft = (late: number) => Math.max(0, Math.min(1, (gone - late) / SOFT));
  return between(from, to, {
    stream: (place) => soft(place / last),
    gradient: (place) => soft(1 + (last - place) / last),
  });
}

/** An invisible picture, the start of the first transition. */
function dark(picture: Picture): Picture {
  return picture.map((lane) => lane.map((point) => ({ ...point, stream: -9, gradient: -9 })));
}

/** The theme's colours, in the form that the canvas uses. */
function paintOf(canvas: HTMLCanvasElement): Paint {
  const style = getComputedStyle(canvas);
  const context = document.createElement('canvas').getContext('2d')!;
  const colour = (name: string) => {
    context.fillStyle = style.getPropertyValue(name); // the canvas returns it as #rrggbb
    const bytes = (context.fillStyle as string).slice(1).match(/../g)!;
    return bytes.map((hex) => parseInt(hex, 16) / 255) as unknown as Colour;
  };
  return {
    gradient: colour('--gradient'),
    broken: colour('--broken'),
    isDark: isDark.value,
  };
}
