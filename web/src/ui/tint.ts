// Colours of heat maps. Blue and orange can be told apart with every kind of colour vision.

/** The colour of a value, in parts of the largest. A power below 1 tells small values apart, one above
 * 1 large ones. */
export function tint(part: number, power = 0.75): string {
  const strength = 100 * Math.abs(part) ** power;
  return `color-mix(in srgb, var(--${part < 0 ? 'negative' : 'positive'}) ${strength.toFixed(1)}%, var(--nothing))`;
}
