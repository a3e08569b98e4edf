// Light, dark, or as the system says; and the colours that canvases draw with.

import { computed, effect, signal } from '@preact/signals';

export type Theme = 'system' | 'light' | 'dark';
export const THEMES: Theme[] = ['system', 'light', 'dark'];

/** Bars and schemes stand on a dark ground in both themes, as on a screen of an instrument. */
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

const media = matchMedia('(prefers-color-scheme: dark)');
const systemIsDark = signal(media.matches);
media.addEventListener('change', () => (systemIsDark.value = media.matches));

export const theme = signal<Theme>(stored());
export const isDark = computed(() =>
  theme.value === 'system' ? systemIsDark.value : theme.value === 'dark',
);

effect(() => {
  document.documentElement.dataset.theme = isDark.value ? 'dark' : 'light';
  try {
    localStorage.setItem('theme', theme.value);
  } catch {
    // A browser that keeps nothing: the theme lasts as long as the page.
  }
});

function stored(): Theme {
  try {
    return THEMES.find((t) => t === localStorage.getItem('theme')) ?? 'system';
  } catch {
    return 'system';
  }
}

export function prefersReducedMotion(): boolean {
  return matchMedia('(prefers-reduced-motion: reduce)').matches;
}
