// The three matrices as number fields: a above A, b beside it, in the order of the lanes.

import { useId, useState } from 'preact/hooks';
import type { LaneNumbers } from '../../kernels/lanes';
import { t, Trans } from '../../language/text';
import { tidy } from '../../state/fields';
import { exactNumber, fixedNumber, powerNumber } from '../../ui/numbers';
import { type Part, setNumber } from './numbers';
import { LIMIT } from './state';

export function Matrices({ numbers }: { numbers: LaneNumbers }) {
  const { lanes, lanesAfter } = numbers;
  const fixed = lanesAfter !== lanes; // a growing stream has other sizes at each sublayer
  const before = Array.from({ length: lanes }, (_, j) => j);
  const after = Array.from({ length: lanesAfter }, (_, i) => i);
  const field = (part: Part, index: number, name: string) => (
    <Cell
      name={name}
      part={part}
      value={numbers[part][index]}
      set={fixed ? undefined : (value) => setNumber(numbers, part, index, value)}
    />
  );
  return (
    <div class="lanes-matrices">
      <table>
        <caption>
          {fixed ? t`The numbers of this sublayer` : t`The numbers, to be changed by hand`}
        </caption>
        <thead>
          <tr>
            <td />
            {before.map((j) => (
              <th scope="col" key={j}>
                {t`lane ${j + 1}`}
              </th>
            ))}
            <th scope="col" class="lanes-write">
              <Trans>
                <i>b</i> writes
              </Trans>
            </th>
          </tr>
        </thead>
        <tbody>
          <tr class="lanes-read">
            <th scope="row">
              <Trans>
                <i>a</i> reads
              </Trans>
            </th>
            {before.map((j) => (
              <td key={j}>{field('read', j, t`a, of lane ${j + 1}`)}</td>
            ))}
            <td />
          </tr>
          {after.map((i) => (
            <tr key={i}>
              <th scope="row">
                <Trans>
                  <i>A</i> into {{ lane: i + 1 }}
                </Trans>
              </th>
              {before.map((j) => (
                <td key={j}>
                  {field('carry', i * lanes + j, t`A, from lane ${j + 1} into lane ${i + 1}`)}
                </td>
              ))}
              <td class="lanes-write">{field('write', i, t`b, into lane ${i + 1}`)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <p class="hint">
        {fixed
          ? t`Here the stream grows by a lane. These numbers cannot be changed.`
          : t`Type, or use the arrow keys: ±${STEP}; Page Up and Page Down: ±${10 * STEP}.`}
      </p>
    </div>
  );
}

const STEP = 0.05;
const DECIMALS = 3;

interface CellProps {
  name: string;
  part: Part;
  value: number;
  set?(value: number): void; // absent: the cell is read-only
}

/** A number field that keeps the typed text as long as it equals the value. */
function Cell({ name, part, value, set }: CellProps) {
  const id = useId();
  const [typed, setTyped] = useState<string | null>(null);
  const shown = shortened(value);
  const isTyped = typed !== null && (parse(typed) === value || parse(typed) === null);
  const change = (to: number) => set?.(tidy(Math.min(LIMIT, Math.max(-LIMIT, to))));
  const press = (event: KeyboardEvent) => {
    const steps: Record<string, number> = { ArrowUp: 1, ArrowDown: -1, PageUp: 10, PageDown: -10 };
    if (!(event.key in steps)) return;
    event.preventDefault();
    setTyped(null);
    change(Math.round((value + steps[event.key] * STEP) / STEP) * STEP);
  };
  return (
    <input
      id={id}
      class={`lanes-number ${part}`}
      type="text"
      inputMode="decimal"
      role="spinbutton"
      aria-label={name}
      aria-valuenow={value}
      aria-valuemin={-LIMIT}
      aria-valuemax={LIMIT}
      aria-invalid={typed !== null && parse(typed) === null}
      title={exactNumber(value)}
      readOnly={set === undefined}
      aria-readonly={set === undefined}
      style={{ '--part': `${Math.min(100, 100 * Math.abs(value)).toFixed(0)}%` }}
      value={isTyped ? typed : shown}
      onFocus={(event) => event.currentTarget.select()}
      onBlur={() => setTyped(null)}
      onKeyDown={set && press}
      onInput={(event) => {
        const text = event.currentTarget.value;
        setTyped(text);
        const number = parse(text);
        if (number !== null) change(number);
      }}
    />
  );
}

/** Reads a number within the limits. The page's minus sign is accepted. */
function parse(text: string): number | null {
  const value = Number(text.trim().replaceAll('−', '-').replace(',', '.'));
  return text.trim() !== '' && Math.abs(value) <= LIMIT ? value : null;
}

/** The number with at most three decimals and no trailing zeros. Smaller numbers use a power of ten. */
function shortened(value: number): string {
  if (value !== 0 && Math.abs(value) < 10 ** -DECIMALS) return powerNumber(value, 0);
  return fixedNumber(value, DECIMALS).replace(/\.?0+$/, '');
}
