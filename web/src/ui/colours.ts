// The colours that canvases and charts draw with.

/** For bars and diagrams on canvases, which have a dark background in both themes. */
export const COLOURS = {
  ground: '#0d131f',
  grid: '#2a3550',
  zero: '#8b97ad',
  text: '#f2f5fa',
  faint: '#a9b4c8',
  identity: '#00FFFF',
  branch: '#FF8800',
  stable: '#FFD700',
  unstable: '#FF4444',
  output: '#4CAF50',
  mean: '#FFFFFF',
} as const;

export interface Themed {
  light: string;
  dark: string;
}

/** For curves, which have the page's background. */
export const CURVE_COLOURS = {
  orange: { light: '#c2410c', dark: '#ff9d5c' },
  blue: { light: '#0b62b8', dark: '#6cb8ff' },
  green: { light: '#00704f', dark: '#4fd6a8' },
  violet: { light: '#8a3ffc', dark: '#c9a5ff' },
  grey: { light: '#4d5a73', dark: '#a9b4c8' },
  text: { light: '#24324a', dark: '#d7deea' },
  grid: { light: '#dde3ec', dark: '#2a3550' },
} as const satisfies Record<string, Themed>;
