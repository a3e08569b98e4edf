// The toolbar above a page: buttons for its state and its tables, and the theme.

import type { ComponentChildren } from 'preact';
import { currentChapter, linkTo } from '../state/link';
import { Button, CopyButton, LinkComplaints } from './controls';
import { showNumbers } from './table';
import { THEMES, theme } from './theme';

interface ToolbarProps {
  reset(): void;
  children?: ComponentChildren; // at its beginning
  end?: ComponentChildren; // before the theme
}

export function Toolbar({ reset, children, end }: ToolbarProps) {
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
      {end}
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
      <LinkComplaints />
    </div>
  );
}
