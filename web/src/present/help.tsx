import { t } from '../language/text';
// The keys of a presentation, explained.

const KEYS: [keys: string[], does: string][] = [
  [['→', '←'], t`next step, previous step`],
  [
    [t`Page Down`, t`Page Up`, t`Space`],
    t`the same, but a step taller than the screen is scrolled first`,
  ],
  [['G'], t`go to any step`],
  [['N'], t`speaker’s notes below the step`],
  [['W'], t`speaker’s notes in a separate window`],
  [['F'], t`enter or leave full screen`],
  [['?'], t`show these keys`],
  [[t`Escape`], t`back to the page`],
];

export function Help() {
  return (
    <aside class="presenter-panel presenter-help" aria-label={t`Keys`}>
      <dl>
        {KEYS.map(([keys, does]) => (
          <div key={does}>
            <dt>
              {keys.map((key) => (
                <kbd key={key}>{key}</kbd>
              ))}
            </dt>
            <dd>{does}</dd>
          </div>
        ))}
      </dl>
    </aside>
  );
}
