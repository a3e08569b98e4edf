// The keys of a presentation, in words.

const KEYS: [keys: string[], does: string][] = [
  [['→', '←'], 'next step, step before'],
  [['Page Down', 'Page Up', 'Space'], 'the same, but first to the end of a step that is too high'],
  [['G'], 'go to any step'],
  [['N'], 'speaker’s notes below the step'],
  [['W'], 'speaker’s notes in a window of their own'],
  [['F'], 'fill the screen, or leave it'],
  [['?'], 'these keys'],
  [['Escape'], 'back to the page'],
];

export function Help() {
  return (
    <aside class="presenter-panel presenter-help" aria-label="Keys">
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
