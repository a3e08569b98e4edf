// A comparison of training without and with warm-up, by the rules of `addnorm study`.

import { t } from '../../language/text';
import { fixedNumber } from '../../ui/numbers';

/** A margin in nats per byte. A model counts as trained if its loss is lower than that of byte
 * frequencies by this margin. The same margin decides whether one loss counts as lower than another. */
export const LEARNED = 0.1;

export interface Outcome {
  steps: number;
  unigram: number;
  without: number; // validation loss; NaN: diverged
  with: number;
}

function trains(loss: number, unigram: number): boolean {
  return loss < unigram - LEARNED;
}

/** The outcome of training without warm-up. */
export function coldFate({ without, unigram }: Outcome): 'trains' | 'stalls' | 'diverges' {
  if (trains(without, unigram)) return 'trains';
  return Number.isFinite(without) ? 'stalls' : 'diverges';
}

export function verdict(outcome: Outcome): string {
  const { steps, unigram, without, with: warmed } = outcome;
  const warmedTrains = trains(warmed, unigram);
  const cold = coldFate(outcome);
  const [a, b] = [without, warmed].map(lossText);
  const chance = fixedNumber(unigram, 2);
  if (cold !== 'trains' && !warmedTrains) {
    return t`The stack does not train in ${steps} steps: the loss is ${a} without and ${b} with warm-up; byte frequencies alone give ${chance}.`;
  }
  if (cold !== 'trains') {
    return cold === 'stalls'
      ? t`Without warm-up the stack stalls: the loss stays at ${a}, and byte frequencies alone give ${chance}. With warm-up it trains: the loss is ${b}.`
      : t`Without warm-up the stack diverges; byte frequencies alone give a loss of ${chance}. With warm-up it trains: the loss is ${b}.`;
  }
  if (warmed < without - LEARNED) {
    return t`The stack trains better with warm-up: the loss is ${a} without and ${b} with it; byte frequencies alone give ${chance}.`;
  }
  return warmedTrains
    ? t`The stack trains without warm-up: the loss is ${a}, with warm-up ${b}; byte frequencies alone give ${chance}.`
    : t`The stack trains without warm-up: the loss is ${a}, with warm-up only ${b} so far; byte frequencies alone give ${chance}.`;
}

export function lossText(loss: number): string {
  return Number.isFinite(loss) ? fixedNumber(loss, 2) : t`diverged`;
}
