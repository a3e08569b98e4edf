// The numbers of SmolLM2-135M-Instruct that scripts/recorded_model.py has recorded.

import recorded from './recorded.json';

export { recorded };

/** The place in the stream, in layers before it, where `recorded.feature` of the first token is largest. */
export const PEAK = recorded.largest.first.indexOf(Math.max(...recorded.largest.first));

/** The first and the last of the layers whose feed-forward norm has a γ below 0.001 for this feature; recorded.test.ts
 * checks it. */
export const MUTED = { from: 11, to: 26 };
