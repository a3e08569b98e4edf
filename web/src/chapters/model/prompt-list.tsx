// The list of prompts, placed next to the figures that it changes.

import { t } from '../../language/text';
import { NameList } from '../../ui/name-list';
import { PROMPTS, state } from './state';

export function PromptList() {
  return (
    <div class="controls">
      <NameList
        label={t`Prompt read`}
        names={PROMPTS.map(({ name }) => name)}
        chosen={PROMPTS.find(({ prompt }) => prompt === state.prompt.value)?.name}
        own={t`your own`}
        choose={(name) => (state.prompt.value = PROMPTS.find((p) => p.name === name)!.prompt)}
      />
    </div>
  );
}
