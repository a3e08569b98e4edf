// The toolbar above a page: buttons for its state and its tables, and the theme.

import type { ComponentChildren } from 'preact';
import { currentChapter, linkComplaints, linkTo } from '../state/link';
import { Button, CopyButton } from './controls';
import { showNumbers } from './table';
import { THEMES, theme } from './theme';

export function Toolbar({ reset, children }: { reset(): void; children?: ComponentChildren }) {
  return (
    <div class="toolbar" role="toolbar" aria-label="Page">
      {children}
      <Button onClick={reset}>Reset all</Button>
      <CopyButton
        label="Copy link"
        text={() => new URL(linkTo(currentChapter()), location.href).href}
      />
      <Button pressed={showNumbers.value} onClick={() => (showNumbers.value = !showNumbers.value)}>
        Show numbers
      </Button>
      <label class="theme">
        Theme{' '}
        <select
          value={theme.value}
          onChange={(event) => (theme.value = THEMES[event.currentTarget.selectedIndex])}
        >
          {THEMES.map((t) => (
            <option key={t} value={t}>
              {t}
            </option>
          ))}
        </select>
      </label>
      {linkComplaints.value.length > 0 && (
        <p class="problem" role="alert">
          Not everything in this link could be used: {linkComplaints.value.join('; ')}. The rest is
          as the link says.
        </p>
      )}
    </div>
  );
}
