// A comparison of training without and with warm-up, by the rules of `addnorm study`.

/** In nats a byte. A model counts as trained if its loss is lower by this than that of byte
 * frequencies, and a loss counts as lower than another if it is lower by this. */
export const LEARNED = 0.1;

export interface Outcome {
  steps: number;
  unigram: number;
  without: number; // validation loss; NaN: diverged
  with: number;
}

export function verdict({ steps, unigram, without, with: warmed }: Outcome): string {
  const trains = (loss: number) => loss < unigram - LEARNED;
  const a = lossText(without);
  const b = lossText(warmed);
  const rest = `byte frequencies alone give ${unigram.toFixed(2)}`;
  if (!trains(without) && !trains(warmed)) {
    return `In ${steps} steps it does not train: the loss is ${a} without and ${b} with warm-up; ${rest}.`;
  }
  if (!trains(without)) {
    const stalls = Number.isFinite(without) ? `it stalls: the loss stays at ${a}` : 'it diverges';
    return `Without warm-up ${stalls}, and ${rest}. With warm-up it trains: ${b}.`;
  }
  if (warmed < without - LEARNED) {
    return `It trains better with warm-up: the loss is ${a} without and ${b} with it; ${rest}.`;
  }
  const also = trains(warmed) ? `with warm-up ${b}` : `with warm-up only ${b} so far`;
  return `It trains without warm-up: the loss is ${a}, ${also}; ${rest}.`;
}

export function lossText(loss: number): string {
  return Number.isFinite(loss) ? loss.toFixed(2) : 'diverged';
}
