// The toolbar above a page: buttons for its state and tables, the language and the theme.

import type { ComponentChildren } from 'preact';
import { language, LANGUAGE_NAMES } from '../language/language';
import { t } from '../language/text';
import { currentChapter, linkTo, sharedLinkTo } from '../state/link';
import { Button, CopyButton, LinkComplaints } from './controls';
import { chapterInView } from './in-view';
import { showNumbers } from './table';
import { THEMES, type Theme, theme } from './theme';

interface ToolbarProps {
  reset(): void;
  children?: ComponentChildren; // at the start
  end?: ComponentChildren; // before the language and the theme
}

const THEME_NAMES: Record<Theme, string> = {
  system: t`system`,
  light: t`light`,
  dark: t`dark`,
};

export function Toolbar({ reset, children, end }: ToolbarProps) {
  return (
    <section class="toolbar" aria-label={t`Page`}>
      {children}
      <Button onClick={reset}>{t`Reset all`}</Button>
      <CopyButton label={t`Copy link`} text={shared} />
      <Button pressed={showNumbers.value} onClick={() => (showNumbers.value = !showNumbers.value)}>
        {t`Show numbers`}
      </Button>
      {end}
      <div class="settings">
        <LanguageMenu />
        <label>
          {t`Theme`}{' '}
          <select
            value={theme.value}
            onChange={(event) => (theme.value = THEMES[event.currentTarget.selectedIndex])}
          >
            {THEMES.map((name) => (
              <option key={name} value={name}>
                {THEME_NAMES[name]}
              </option>
            ))}
          </select>
        </label>
      </div>
      <LinkComplaints />
    </section>
  );
}

/** The address for sharing: at the chapter in view, without the reader's answers. */
function shared(): string {
  return new URL(sharedLinkTo(chapterInView.peek()), location.href).href;
}

/** Each language by its own name. Choosing one reloads the page. */
function LanguageMenu() {
  const choose = (menu: HTMLSelectElement) => {
    const url = new URL(linkTo(currentChapter()), location.href);
    url.searchParams.set('lang', menu.value);
    menu.value = language; // keeps this page's language, in case the reader comes back to it
    location.href = url.href;
  };
  return (
    <label>
      {t`Language`}{' '}
      <select
        data-menu="language"
        value={language}
        onChange={(event) => choose(event.currentTarget)}
      >
        {Object.entries(LANGUAGE_NAMES).map(([tag, name]) => (
          <option key={tag} value={tag} lang={tag}>
            {name}
          </option>
        ))}
      </select>
    </label>
  );
}
