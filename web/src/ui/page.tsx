// What both pages have: a head, a toolbar and a foot.

import type { ComponentChildren } from 'preact';
import { showNumbers } from './table';

interface PageProps {
  title: string;
  introduction: ComponentChildren;
  class?: string;
  children: ComponentChildren; // from the toolbar on
}

export function Page({ title, introduction, class: name = '', children }: PageProps) {
  return (
    <div class={`page ${name} ${showNumbers.value ? 'numbers-shown' : ''}`}>
      <header class="head">
        <h1>{title}</h1>
        <p>{introduction}</p>
      </header>
      {children}
      <footer>
        <p>addnorm, Apache-2.0. The page loads nothing from anywhere else.</p>
      </footer>
    </div>
  );
}
