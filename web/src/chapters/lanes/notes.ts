/** The speaker's notes, one for each step of a presentation. */
export const notes = [
  'Begin with the question: how can a stream be wider without making every matrix wider? Then read the table, costs included.',
  'Take pre-norm first: one lane, three times the number 1. Then hyper-connections, then mHC, and point at what changed in read, carry and write.',
  'A row of the map is a sublayer, and the colours say what it reads of those below. Compare pre-norm with Attention Residuals.',
  'Ask what happens to the lanes over 48 layers if each carry averages a little. Compare hyper-connections with mHC: one may grow, one cannot.',
  'Show the trap with equal lanes: no entry of A gets a gradient that could tell the lanes apart. Then break the tie.',
];
