// Named settings as a list, to stand beside what they change.

import { computed } from '@preact/signals';
import { choice } from '../state/fields';
import { Select } from './controls';

interface NameListProps {
  label: string;
  names: readonly string[];
  chosen: string | undefined; // none where the settings are the reader's own
  own: string; // what these are called
  choose(name: string): void;
}

const noProblem = computed(() => '');

export function NameList({ label, names, chosen, own, choose }: NameListProps) {
  const value = chosen ?? own;
  const item = {
    field: choice(chosen === undefined ? [own, ...names] : names, value),
    problem: noProblem,
    get value() {
      return value;
    },
    set value(name: string) {
      if (name !== own) choose(name);
    },
  };
  return <Select label={label} item={item} />;
}
