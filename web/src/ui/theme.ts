// The theme: light, dark, or that of the system.

import { computed, effect, signal } from '@preact/signals';
import { query } from '../state/query';

export type Theme = 'system' | 'light' | 'dark';
export const THEMES: Theme[] = ['system', 'light', 'dark'];

// The first screen is also rendered without a browser.
const media = globalThis.matchMedia?.('(prefers-color-scheme: dark)');
const systemIsDark = signal(media?.matches ?? false);
media?.addEventListener('change', () => (systemIsDark.value = media.matches));

/** What the address asks for: not the reader's choice, so it is not stored. */
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
    // The browser stores nothing, so the theme lasts as long as the page.
  }
});

function stored(): Theme {
  try {
    return THEMES.find((t) => t === localStorage.getItem('theme')) ?? 'system';
  } catch {
    return 'system';
  }
}
