// The arrangements as a list, to stand beside what they change.

import { useId } from 'preact/hooks';
import { t } from '../../language/text';
import { Problem } from '../../ui/controls';
import { GROUPS, LABELS, type RowName } from './rows';
import { state } from './state';

export function RowList() {
  const id = useId();
  return (
    <div class="control select">
      <label for={id}>{t`Arrangement`}</label>
      <select
        id={id}
        value={state.row.value}
        onChange={(event) => (state.row.value = event.currentTarget.value as RowName)}
      >
        {GROUPS.map(({ legend, names }) => (
          <optgroup key={legend} label={legend}>
            {names.map((name) => (
              <option key={name} value={name}>
                {LABELS[name]}
              </option>
            ))}
          </optgroup>
        ))}
      </select>
      <Problem text={state.row.problem.value} />
    </div>
  );
}
