// The stream and its gradient by layer, at the steps at which a run was profiled.

import { isNumber, objects } from './metrics';

/** The RMS of each layer's input, and of the last layer's output. */
interface Places {
  stream: (number | undefined)[];
  gradient: (number | undefined)[];
}

export interface Profile {
  layers: number;
  steps: Map<number, Places>;
}

export const noProfile = (): Profile => ({ layers: 0, steps: new Map() });

export function addProfile(profile: Profile, lines: readonly string[]): void {
  for (const line of objects(lines)) {
    if (isLayer(line.model?.n_layers)) profile.layers = line.model.n_layers;
    const place = placeOf(line, profile.layers);
    if (!isLayer(place) || !isNumber(line.rms) || !isNumber(line.grad_rms)) continue;
    const places = profile.steps.get(line.step) ?? { stream: [], gradient: [] };
    places.stream[place] = line.rms;
    places.gradient[place] = line.grad_rms;
    profile.steps.set(line.step, places);
  }
}

const MOST_LAYERS = 1000; // as in src/io/profile.cc

function isLayer(value: unknown): value is number {
  return Number.isInteger(value) && 0 <= (value as number) && (value as number) <= MOST_LAYERS;
}

/** The index of a line's position in the stream, as `stream_entry` in src/probe/profiler.h. */
function placeOf(line: Record<string, any>, layers: number): number | undefined {
  const { layer, sublayer, point, norm } = line;
  if (norm !== undefined) return undefined;
  if (sublayer === 'attention' && point === 'x') return layer;
  const isLast = sublayer === 'feed_forward' && layer === layers - 1;
  return isLast && (point === 'sum' || point === 'after') ? layers : undefined; // "after" comes last
}

/** The last profile at or before this step. */
export function placesAt({ steps }: Profile, step: number): Places | undefined {
  const at = [...steps.keys()].findLast((profiled) => profiled <= step);
  return at === undefined ? undefined : steps.get(at);
}
