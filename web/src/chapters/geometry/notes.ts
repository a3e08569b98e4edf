import { t } from '../../language/text';

/** The speaker's notes, one for each step of a presentation. */
export const notes = [
  t`Turn the view until you look along the dashed line: the plane is now seen from the front. Then draw one step after the other and drag x: its image stays on the circle. Scroll to the questions, and let the audience guess before you press a button. Ask for a reason, in terms of the picture.`,
  t`Go down the table row by row. Near the dashed line, ε decides: x̂ leaves the circle and goes to 0.`,
];
