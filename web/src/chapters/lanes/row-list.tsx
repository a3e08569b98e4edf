// The list of arrangements, placed next to the settings that it changes.

import { t } from '../../language/text';
import { Select } from '../../ui/controls';
import { GROUPS, LABELS } from './rows';
import { state } from './state';

export function RowList() {
  return <Select label={t`Arrangement`} item={state.row} labels={LABELS} groups={GROUPS} />;
}
