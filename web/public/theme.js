// What the style sheet must know before anything is shown: the theme (src/ui/theme.ts has the rest),
// and whether the page is a chapter in a frame or a presentation.
const asked = new URLSearchParams(location.search);
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
document.documentElement.dataset.theme = dark ? 'dark' : 'light';
const view = ['embed', 'present'].find((name) => asked.has(name));
if (view) document.documentElement.dataset.view = view;
