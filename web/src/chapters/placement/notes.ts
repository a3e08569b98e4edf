/** The speaker's notes, one for each step of a presentation. */
export const notes = [
  'The paper of 2017 has the norm after the sum. Nearly every model since GPT-2 has it before the sublayer. Why did people move it?',
  'Press post, then pre, and follow the thick line from below to above. In pre there is no norm on it.',
  'Compare the slopes. Post keeps the stream’s size, and the gradient meets every norm; pre lets the stream grow, and the gradient passes.',
  'Start with post. While it trains, ask which of the two runs will learn. Then the same with pre. One seed is one sample.',
];
