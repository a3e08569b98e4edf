// The look of each placement, the same in every chart.

export interface Look {
  colour: string;
  dash?: string;
}

const LOOKS: Record<string, Look> = {
  pre: { colour: 'var(--series-1)' },
  none: { colour: 'var(--series-3)', dash: '3 4' },
  post: { colour: 'var(--series-6)', dash: '12 3 3 3' },
};

/** The look of all other placements. A chart has at most one of them. */
const OTHER: Look = { colour: 'var(--series-2)' };

export function lookOf(placement: string): Look {
  return LOOKS[placement] ?? OTHER;
}
