// Input from keys, a presenter's remote, and swipes.

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

/** Controls that use the arrow keys, and controls that use the space bar. */
const ARROWS = 'input, select, textarea, [role=slider]';
const SPACE = `${ARROWS}, button, summary, [role=button]`;

/** Whether the focused control was clicked. The arrow keys then move to another step: a
 * lecturer who has just answered a question does not want to change the answer. After Tab,
 * a control gets the arrow keys. */
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

/** Scrolls within a step that is taller than the screen. Returns false at its end. */
function scrollBy(way: 1 | -1): boolean {
  const before = scrollY;
  window.scrollBy({ top: way * 0.8 * innerHeight, behavior: 'instant' });
  return Math.abs(scrollY - before) > 1;
}

const SWIPE = 60; // pixels

/** Handles horizontal swipes of one finger, except on elements that can be dragged. */
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
