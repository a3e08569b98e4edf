// The frame of both pages: a column from the toolbar to the footer.

import type { ComponentChildren } from 'preact';
import { t } from '../language/text';
import { showNumbers } from './table';

interface PageProps {
  class?: string;
  children: ComponentChildren; // the content from the toolbar on
}

export function Page({ class: name = '', children }: PageProps) {
  return (
    <div class={`page ${name} ${showNumbers.value ? 'numbers-shown' : ''}`}>
      {children}
      <footer>
        <p>{t`addnorm, Apache-2.0. The page loads nothing from other sites.`}</p>
      </footer>
    </div>
  );
}
