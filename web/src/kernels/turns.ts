// How far each layer of a stack with first weights turns the stream.

import { Block, type Initialization } from 'addnorm';
import { normal } from '../ui/random';
import { dot } from '../ui/vectors';

export interface TurnsOptions {
  placement: 'pre' | 'post';
  layers: number;
  width: number;
  heads: number;
  tokens: number;
  initialization: Initialization;
  norm: 'layer' | 'rms';
  seed: number;
}

/** The angle between what a layer reads and what it leaves, in degrees: the mean over tokens. The first
 * layer reads random numbers. */
export function turns(module: WebAssembly.Module, options: TurnsOptions): number[] {
  const { placement, layers, width, heads, tokens, initialization, norm, seed } = options;
  let x: Float32Array = Float32Array.from({ length: tokens * width }, normal(seed));
  return Array.from({ length: layers }, (_, i) => {
    const block = new Block(module, {
      dModel: width,
      heads,
      dFf: 4 * width,
      placement,
      norm: { kind: norm },
      layer: i + 1,
      layers,
      initialization,
      seed: 1000 * seed + i,
    });
    const y = block.forward(x, { causal: true });
    block.dispose();
    const angle = meanAngle(x, y, width);
    x = y;
    return angle;
  });
}

function meanAngle(a: Float32Array, b: Float32Array, width: number): number {
  const rows = a.length / width;
  const angles = Array.from({ length: rows }, (_, row) => {
    const [u, v] = [a, b].map((all) => Array.from(all.subarray(row * width, (row + 1) * width)));
    const cosine = dot(u, v) / Math.sqrt(dot(u, u) * dot(v, v));
    return (180 / Math.PI) * Math.acos(Math.min(1, Math.max(-1, cosine)));
  });
  return angles.reduce((sum, angle) => sum + angle, 0) / rows;
}
