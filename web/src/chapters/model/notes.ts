/** The speaker's notes, one for each step of a presentation. */
export const notes = [
  'Take a prompt from the room. All that follows is measured on it, in a network that was trained with this project’s own program.',
  'The stream grows in the first layers, and in the middle each branch is a small part of it: that is the price of pre-norm.',
  'Look for the bright columns: single features that are much larger than the rest, in every layer.',
  'Each dot is one γ. All began at 1. Ask what a γ near 0 means for that feature.',
  'Let the room bet on the layer that is missed most. Then show the bars.',
];
