// Computes which cells of a batch share a mean, and applies a norm to the batch.

import type { AddNormResult, Kind } from 'addnorm';
import { kernels } from '../../kernels/current';
import { normal } from '../../ui/random';
import { largest, largestDifference } from '../../ui/vectors';

/** A batch has one row for each sample; its features are channels × positions. */
export interface Batch {
  samples: number;
  channels: number;
  positions: number;
  groups: number; // GroupNorm's; divides the channels
}

export interface Cell {
  row: number;
  column: number;
}

export function featuresOf({ channels, positions }: Batch): number {
  return channels * positions;
}

/** The index of the set that a cell belongs to, in the order of the kernels' statistics. */
export function setOf(kind: Kind, batch: Batch, { row, column }: Cell): number {
  const channel = Math.floor(column / batch.positions);
  switch (kind) {
    case 'layer':
    case 'rms':
      return row;
    case 'batch':
      return channel;
    case 'instance':
      return row * batch.channels + channel;
    case 'group': {
      const group = Math.floor((channel * batch.groups) / batch.channels);
      return row * batch.groups + group;
    }
  }
}

/** The values of a batch. Rows and channels have different means, so that
 * the norms give different results. */
export function drawBatch(batch: Batch, seed: number, others: number): Float64Array {
  const offset = normal(seed + 1e5);
  const channelMeans = Array.from({ length: batch.channels }, () => 1.5 * offset());
  const features = featuresOf(batch);
  const values = new Float64Array(batch.samples * features);
  for (let row = 0; row < batch.samples; row++) {
    const draw = normal(row === 0 ? seed : (seed + 1) * 7919 + others * 104729 + row);
    const rowMean = draw();
    for (let column = 0; column < features; column++) {
      const value = channelMeans[Math.floor(column / batch.positions)] + rowMean + draw();
      values[row * features + column] = Math.round(100 * value) / 100;
    }
  }
  return values;
}

export function normalize(kind: Kind, batch: Batch, x: Float64Array): AddNormResult<Float64Array> {
  const { samples: rows, channels, groups } = batch;
  return kernels.addNorm(x, null, { kind, rows, features: featuresOf(batch), channels, groups });
}

/** The number of times that the other samples are redrawn, to measure their effect on the first one. */
export const REDRAWS = 8;

/** The measured behaviour of a norm on a batch. */
export interface Behaviour {
  sets: number;
  setSize: number;
  /** The largest change of sample 1's output in REDRAWS draws of the other
   * samples; null if there are none. */
  neighbours: number | null;
  /** The change of sample 1's output when it is a batch of its own. */
  alone: number;
  /** The largest output of sample 1 when it is a batch of its own. */
  aloneLargest: number;
  /** The distance of that output from InstanceNorm's. */
  aloneFromInstance: number;
}

export function behaviourOf(kind: Kind, batch: Batch, seed: number, others: number): Behaviour {
  const x = drawBatch(batch, seed, others);
  const features = featuresOf(batch);
  const first = (values: Float64Array) => values.subarray(0, features);
  const { y, statistics } = normalize(kind, batch, x);
  const change = (draw: number) => {
    const redrawn = normalize(kind, batch, drawBatch(batch, seed, others + draw)).y;
    return largestDifference(first(y), first(redrawn));
  };
  const changes = Array.from({ length: REDRAWS }, (_, i) => change(i + 1));
  const one = { ...batch, samples: 1 };
  const alone = normalize(kind, one, first(x).slice()).y;
  const instance = normalize('instance', one, first(x).slice()).y;
  return {
    sets: statistics.mean.length,
    setSize: x.length / statistics.mean.length,
    neighbours: batch.samples === 1 ? null : Math.max(...changes),
    alone: largestDifference(first(y), alone),
    aloneLargest: largest(alone),
    aloneFromInstance: largestDifference(alone, instance),
  };
}
