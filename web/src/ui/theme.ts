// The theme: light, dark, or that of the system.

import { computed, effect, signal } from '@preact/signals';
import { query } from '../state/query';

export type Theme = 'system' | 'light' | 'dark';
export const THEMES: Theme[] = ['system', 'light', 'dark'];

// Undefined when the first screen is rendered without a browser.
const media = globalThis.matchMedia?.('(prefers-color-scheme: dark)');
const systemIsDark = signal(media?.matches ?? false);
media?.addEventListener('change', () => (systemIsDark.value = media.matches));

/** The theme in the address. It is not the reader's choice, so it is not stored. */
const asked = THEMES.find((t) => t === query.get('theme'));

export const theme = signal<Theme>(asked ?? stored());
export const isDark = computed(() =>
  theme.value === 'system' ? systemIsDark.value : theme.value === 'dark',
);

effect(() => {
  if (media === undefined) return;
  document.documentElement.dataset.theme = isDark.value ? 'dark' : 'light';
  if (theme.value === asked) return;
  try {
    localStorage.setItem('theme', theme.value);
  } catch {
    // If the browser stores nothing, the theme lasts as long as the page.
  }
});

function stored(): Theme {
  try {
    return THEMES.find((t) => t === localStorage.getItem('theme')) ?? 'system';
  } catch {
    return 'system';
  }
}
