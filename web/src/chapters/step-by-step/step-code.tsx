// The code of all steps, with the lines of one step highlighted.

import type { NormOptions } from 'addnorm';
import { t } from '../../language/text';
import { Choice, CopyButton } from '../../ui/controls';
import { CODE_LABELS, listing, textOf } from './code';
import { state } from './state';

interface StepCodeProps {
  step: number; // from 1
  options: NormOptions;
}

export function StepCode({ step, options }: StepCodeProps) {
  const language = state.language.value;
  const code = listing(language, options);
  const name = CODE_LABELS[language];
  return (
    <div class="code st-code">
      <div class="controls">
        <Choice label={t`From scratch in`} item={state.language} labels={CODE_LABELS} />
        <CopyButton label={t`Copy`} text={() => textOf(code)} />
      </div>
      <pre class="card" tabIndex={0} role="region" aria-label={t`Step ${step} in ${name}`}>
        <code>
          {code.flatMap((lines, i) =>
            lines.map((line) =>
              i === step ? <Lit line={line} /> : <span class="st-dark">{`${line}\n`}</span>,
            ),
          )}
        </code>
      </pre>
    </div>
  );
}

/** A highlighted line. Its indentation is not highlighted. */
function Lit({ line }: { line: string }) {
  const text = line.trimStart();
  return (
    <>
      {line.slice(0, line.length - text.length)}
      <mark>{text}</mark>
      {'\n'}
    </>
  );
}
