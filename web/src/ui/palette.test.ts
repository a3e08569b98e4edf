// Checks that the colours of figures are legible on their background, in both themes.

import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';

const sheet = readFileSync(new URL('../style.css', import.meta.url), 'utf8');

/** The variables that a rule sets. */
function variables(selector: string): Record<string, string> {
  const start = sheet.indexOf(`${selector} {`);
  const rule = sheet.slice(start, sheet.indexOf('\n}', start));
  return Object.fromEntries([...rule.matchAll(/--([\w-]+): ([^;]+);/g)].map((m) => [m[1], m[2]]));
}

const light = variables(':root');
const dark = { ...light, ...variables(":root[data-theme='dark']") };

/** The relative luminance of WCAG 2. */
function luminance(colour: string): number {
  const parts = [1, 3, 5].map((i) => parseInt(colour.slice(i, i + 2), 16) / 255);
  const [r, g, b] = parts.map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

function contrast(a: string, b: string): number {
  const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y);
  return (high + 0.05) / (low + 0.05);
}

/** The value of a variable, with references to other variables followed. */
function colourIn(theme: Record<string, string>, name: string): string {
  const reference = /^var\(--([\w-]+)\)$/.exec(theme[name]);
  return reference ? colourIn(theme, reference[1]) : theme[name];
}

test.each([
  ['stream', '#00ffff'],
  ['branch', '#ff8800'],
  ['sum', '#ffd700'],
  ['broken', '#ff4444'],
  ['statistics', '#ff8800'],
  ['mean', '#ffffff'],
  ['normalized', '#00ffff'],
  ['output', '#4caf50'],
])('dark, --%s is the colour of document 004, %s', (name, colour) => {
  expect(colourIn(dark, name)).toBe(colour);
});

describe.each([
  ['light', light],
  ['dark', dark],
])('%s', (_, theme) => {
  const colour = (name: string) => colourIn(theme, name);

  test.each([
    ...[
      'stream',
      'branch',
      'sum',
      'statistics',
      'normalized',
      'output',
      'gradient',
      'theory',
      'broken',
    ],
    ...[1, 2, 3, 4, 5, 6].map((i) => `series-${i}`),
    ...['text', 'faint'],
  ])('--%s is legible on a figure', (name) => {
    expect(contrast(colour(name), colour('figure'))).toBeGreaterThanOrEqual(4.5);
  });

  test.each(['stream', 'normalized', 'output'])('text on --%s is legible', (name) => {
    expect(contrast(colour('on-mark'), colour(name))).toBeGreaterThanOrEqual(4.5);
  });

  test.each(['negative', 'nothing', 'positive'])('text on --%s is legible', (name) => {
    expect(contrast(colour('text'), colour(name))).toBeGreaterThanOrEqual(4.5);
  });

  test('lines that carry no text can be seen', () => {
    expect(contrast(colour('axis'), colour('figure'))).toBeGreaterThanOrEqual(3);
    expect(contrast(colour('mean'), colour('figure'))).toBeGreaterThanOrEqual(3);
  });
});
