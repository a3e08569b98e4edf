// KaTeX with its style sheet, in a separate file, because only formulas need it.

import 'katex/dist/katex.min.css';

export { default } from 'katex';
