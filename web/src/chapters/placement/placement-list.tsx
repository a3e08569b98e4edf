// The list of named placements.

import type { Placement } from '../../kernels/kernels';
import { t } from '../../language/text';
import { NameList } from '../../ui/name-list';
import { chosenArrangement, choose, OWN, rowOf } from './arrangement';

export function PlacementList({ table }: { table: Placement[] }) {
  return (
    <NameList
      label={t`Placement`}
      names={table.map(({ name }) => name)}
      chosen={rowOf(chosenArrangement(), table)?.name}
      own={OWN}
      choose={(name) =>
        choose(
          table.find((row) => row.name === name)!,
          table,
        )
      }
    />
  );
}
