// A list of named settings, placed next to the parts that they change.

import { computed } from '@preact/signals';
import { choice } from '../state/fields';
import { Select } from './controls';

interface NameListProps {
  label: string;
  names: readonly string[];
  chosen: string | undefined; // undefined for the reader's own settings
  own: string; // the name of own settings
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
