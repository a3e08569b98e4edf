// The measured points outside the band of theory.

import type { LabCurve, LabPanel } from '../../kernels/lab';

/** For each value of a measured curve: whether it lies outside a band that theory allows there. A
 * curve has the colour of its theory. */
export function failuresOf({ x, y, color }: LabCurve, { predicted }: LabPanel): boolean[] {
  const bands = predicted.filter((band) => band.color === color && band.low.length > 0);
  return x.map((at, i) =>
    bands.some((band) => {
      const place = band.x.indexOf(at);
      return place >= 0 && isOutside(y[i], band.low[place], band.high[place]);
    }),
  );
}

/** JSON has null for an infinite edge, and for a value that is not finite. Where both edges are
 * null, nothing is claimed. */
function isOutside(value: number | null, low: number | null, high: number | null): boolean {
  if (low === null && high === null) return false;
  return value === null || value < (low ?? -Infinity) || value > (high ?? Infinity);
}
