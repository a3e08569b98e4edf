// The theme before anything is shown; src/ui/theme.ts has the rest.
let theme = 'system';
try { theme = localStorage.getItem('theme') ?? theme; } catch {}
const dark = theme === 'dark' || (theme !== 'light' && matchMedia('(prefers-color-scheme: dark)').matches);
document.documentElement.dataset.theme = dark ? 'dark' : 'light';
