// A trained network out of its file, and what it makes of a prompt.

import type { Kernels, Prediction, PromptMeasurement, TrainedOptions } from './kernels';
import { parseSafetensors } from './safetensors';

const CONTINUATION = 32; // bytes that the network goes on by

/** What the network is, and what it has learned of γ. */
export interface Network {
  layers: number;
  width: number;
  context: number;
  parameters: number;
  gammas: Float32Array[]; // of the norm before each sublayer, and of the final one
}

export interface PromptReading extends PromptMeasurement {
  network: Network;
  whole: Prediction;
  withoutLayer: Prediction[];
  withoutSublayer: Prediction[];
}

/** Has the network of this file read the prompt: as it is, and without each layer and sublayer. */
export function readPrompt(kernels: Kernels, file: ArrayBuffer, prompt: Uint8Array): PromptReading {
  const { metadata, values } = parseSafetensors(file);
  const options = optionsOf(metadata.config);
  const { layers } = options;
  const each = (count: number, length: number) =>
    Array.from({ length: (2 * layers) / count }, (_, i) => ({ first: i * count, count, length }));
  const whole = { first: 0, count: 0, length: CONTINUATION };
  const requests = [whole, ...each(2, CONTINUATION), ...each(1, 0)];
  const { measurement, predictions } = kernels.readPrompt(options, values, prompt, requests);
  return {
    ...measurement,
    network: networkOf(options, values),
    whole: predictions[0],
    withoutLayer: predictions.slice(1, 1 + layers),
    withoutSublayer: predictions.slice(1 + layers),
  };
}

/** Of the settings that `addnorm train` has written beside the tensors. */
function optionsOf(config: string): TrainedOptions {
  const { layers, width, heads, ff, context, eps, ...rest } = JSON.parse(config);
  const { placement, norm, activation, head } = rest;
  const kind = [placement, norm, activation, head].join(' ');
  if (kind !== 'pre layer gelu tied') throw new Error(`The network is ${kind}, which is not read.`);
  return { layers, width, heads, dFf: ff, context, epsilon: eps };
}

function networkOf({ layers, width, context }: TrainedOptions, values: Map<string, Float32Array>) {
  const all = [...values];
  const gammas = all.filter(([name]) => name.endsWith('.gamma')).map(([, gamma]) => gamma);
  const parameters = all.reduce((sum, [, { length }]) => sum + length, 0);
  return { layers, width, context, parameters, gammas };
}
