// Settings that must be known before the first paint: the theme (see also src/ui/theme.ts), the
// language (src/language/), and whether the page is embedded or a presentation.
const LANGUAGES = ['en', 'de', 'es', 'zh']; // the same list as in src/language/language.ts
const asked = new URLSearchParams(location.search);
const { dataset } = document.documentElement;

const themes = ['system', 'light', 'dark'];
let theme = asked.get('theme');
if (!themes.includes(theme)) {
  theme = 'system';
  try {
    theme = localStorage.getItem('theme') ?? theme;
  } catch {}
}
const dark =
  theme === 'dark' || (theme !== 'light' && matchMedia('(prefers-color-scheme: dark)').matches);
dataset.theme = dark ? 'dark' : 'light';

const wanted = [asked.get('lang') ?? '', ...navigator.languages];
const known = wanted.map((tag) => tag.split('-')[0].toLowerCase());
const language = known.find((name) => LANGUAGES.includes(name)) ?? 'en';
document.documentElement.lang = language;
// Loads the catalogue before the page's script. In the single file, the
// catalogue is already in the page.
if (language !== 'en' && document.currentScript.src) {
  document.write(`<script defer src="./locales/${language}.js"><\/script>`);
}

const view = ['embed', 'present'].find((name) => asked.has(name));
if (view) dataset.view = view;

// The language menu of the first screen, before the page's script has run and answers itself.
addEventListener('change', ({ target }) => {
  if (!target.matches('[data-prerendered] [data-menu="language"]')) return;
  const url = new URL(location.href);
  url.searchParams.set('lang', target.value);
  location.href = url.href;
});
