// Keys, a presenter's remote, and swipes.

export interface Moves {
  next(): void;
  back(): void;
  leave(): void;
  notes(): void;
  speaker(): void;
  jump(): void;
  help(): void;
  fullScreen(): void;
}

/** Controls that use the arrow keys themselves, and those that use the space bar. */
const ARROWS = 'input, select, textarea, [role=slider]';
const SPACE = `${ARROWS}, button, summary, [role=button]`;

/** Whether the control with the focus was clicked. Its arrows then go on: a lecturer who has just
 * answered a question does not mean to change the answer. With Tab a control gets its arrows. */
let wasClicked = false;

export function watchClicks(signal: AbortSignal): void {
  addEventListener('pointerdown', () => (wasClicked = true), { signal, capture: true });
  addEventListener('keydown', ({ key }) => (wasClicked &&= key !== 'Tab'), {
    signal,
    capture: true,
  });
}

export function press(event: KeyboardEvent, moves: Moves): void {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
  const isFor = (controls: string) => (event.target as Element).matches?.(controls);
  if (isFor('textarea, input[type=text]') && event.key !== 'Escape') return;
  const hasArrows = isFor(ARROWS) && !wasClicked;
  const forward = () => scrollBy(1) || moves.next();
  const backward = () => scrollBy(-1) || moves.back();
  const actions: Record<string, undefined | false | (() => void)> = {
    PageDown: forward,
    PageUp: backward,
    ' ': !isFor(SPACE) && (event.shiftKey ? backward : forward),
    ArrowRight: !hasArrows && moves.next,
    ArrowLeft: !hasArrows && moves.back,
    Escape: moves.leave,
    n: moves.notes,
    w: moves.speaker,
    g: moves.jump,
    '?': moves.help,
    f: moves.fullScreen,
  };
  const { key } = event;
  const action = actions[key.length === 1 ? key.toLowerCase() : key];
  if (!action) return;
  event.preventDefault();
  action();
}

/** Scrolls most of a screen up or down a step that is higher than it; false at its end. */
function scrollBy(way: 1 | -1): boolean {
  const before = scrollY;
  window.scrollBy({ top: way * 0.8 * innerHeight, behavior: 'instant' });
  return Math.abs(scrollY - before) > 1;
}

const SWIPE = 60; // pixels

/** Swipes of one finger to the side, except over what it drags. */
export function onSwipe({ next, back }: Moves, signal: AbortSignal): void {
  const options = { passive: true, signal };
  let from: Touch | undefined;
  const begin = ({ target, touches }: TouchEvent) => {
    const drags = (target as Element).closest('input, .scroll, [role=slider]');
    from = drags || touches.length > 1 ? undefined : touches[0];
  };
  const end = ({ changedTouches: [to] }: TouchEvent) => {
    if (from === undefined) return;
    const [x, y] = [to.clientX - from.clientX, to.clientY - from.clientY];
    if (Math.abs(x) < SWIPE || Math.abs(x) < 2 * Math.abs(y)) return;
    if (x < 0) next();
    else back();
  };
  addEventListener('touchstart', begin, options);
  addEventListener('touchend', end, options);
}
