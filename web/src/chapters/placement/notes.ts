/** The speaker's notes, one for each step of a presentation. */
export const notes = [
  'The paper of 2017 has the norm after the sum. Nearly every model since GPT-2 has it before the sublayer. Why did people move it?',
  'Press post, then pre, and follow the thick line from x at the top to y at the bottom. In pre there is no norm on it.',
  'Compare the slopes. Post keeps the stream’s size, and the gradient meets every norm; pre lets the stream grow, and the gradient passes.',
  'Ask: which layer turns the stream most, the first or the last? With PyTorch’s weights the difference is small. Go back one step, choose Xavier, and come again.',
  'Two runs, one difference: warm-up. Let the room bet which one gets below the dashed line, then press Start training and scroll to the curve. It takes half a minute. Then choose pre, three steps back. One seed is one sample.',
];
