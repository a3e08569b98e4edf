// Colours of heat maps. Blue and orange are distinct with every kind of colour vision.

/** The colour of a value, relative to the largest. A power below 1 separates small values, a power
 * above 1 separates large ones. */
export function tint(part: number, power = 0.75): string {
  const strength = 100 * Math.abs(part) ** power;
  return `color-mix(in srgb, var(--${part < 0 ? 'negative' : 'positive'}) ${strength.toFixed(1)}%, var(--nothing))`;
}
