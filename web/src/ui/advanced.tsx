// Folded content, which a reader opens to see more.

import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { t } from '../language/text';
import { presenting } from '../present/start';
import type { Item } from '../state/store';
import { printedPart } from './near';

interface AdvancedProps {
  title: string;
  /** Whether the title begins a section, and so a step of a presentation. */
  heading?: boolean;
  /** The values that only the folded controls change. If a link changes one, the content is open. */
  state?: readonly Item<any, any>[];
  children: ComponentChildren;
}

/** Folded content. Presentations and printed pages show it. */
export function Advanced({ title, heading, state = [], children }: AdvancedProps) {
  const [open, setOpen] = useState(() => state.some(({ isChanged }) => isChanged));
  const always = presenting.value || printedPart.value !== undefined;
  const Title = heading ? 'h3' : 'span';
  return (
    <details
      class="advanced"
      open={open || always}
      onToggle={({ currentTarget }) => always || setOpen(currentTarget.open)}
    >
      <summary>
        <Title>
          <span class="advanced-mark">{t`Advanced`}</span> {title}
        </Title>
      </summary>
      {children}
    </details>
  );
}
