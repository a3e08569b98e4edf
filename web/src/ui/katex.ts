// KaTeX with its looks, by itself, since only formulas need it.

import 'katex/dist/katex.min.css';

export { default } from 'katex';
