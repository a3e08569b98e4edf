// One sublayer with its five slots on the residual stream, from top to bottom.

import type { Arrangement } from '../../kernels/kernels';
import { language } from '../../language/language';
import { t } from '../../language/text';
import type { Item } from '../../state/store';
import { NORM_NAMES } from '../../ui/names';
import { pressable } from '../../ui/marks';
import { factor, type FactorSlot } from './factors';
import { state } from './state';

const STREAM = 76; // x of the stream and of the branch
const BRANCH = 224;

export function Diagram({ arrangement }: { arrangement: Arrangement }) {
  const norm = NORM_NAMES[state.norm.value];
  const cut = arrangement.skip === 'plain';
  const isScaled = arrangement.beforeScale !== 'none';
  const scaled = isScaled ? `${norm} ${labelOf('beforeScale', arrangement)}` : norm;
  return (
    <svg
      class="diagram placement-diagram"
      viewBox="0 0 320 500"
      role="group"
      aria-label={words(arrangement)}
    >
      <text x={STREAM} y="18" class="name">
        x
      </text>
      <path class={cut ? 'dashed' : 'stream'} d={`M${STREAM} 62 V338`} />
      <path class="stream" d={`M${STREAM} 26 V62`} />
      <path class="branch" d={`M${STREAM} 62 H${BRANCH} V352 H${STREAM + 17}`} />
      <path class="arrow" d={`M${STREAM + 15} 352 l14 -7 v14 z`} />
      <circle class="dot" cx={STREAM} cy="62" r="4" />
      <Slot x={BRANCH} y={84} name={t`before`} norm={scaled} item={state.before} />
      <g class="sublayer">
        <rect x={BRANCH - 70} y="142" width="140" height="52" rx="8" />
        <text x={BRANCH} y="164">
          {t`F: attention`}
        </text>
        <text x={BRANCH} y="182">
          {t`or feed-forward`}
        </text>
      </g>
      <Slot x={BRANCH} y={216} name={t`inside F`} norm={norm} item={state.inside} />
      <Factor x={BRANCH} y={288} name={t`gain`} label={labelOf('gain', arrangement)} />
      <Factor x={STREAM} y={216} name={t`skip`} label={labelOf('skip', arrangement)} />
      <circle class="plus" cx={STREAM} cy="352" r="14" />
      <path class="plus" d={`M${STREAM - 8} 352 H${STREAM + 8} M${STREAM} 344 V360`} />
      <path class="stream" d={`M${STREAM} 366 V444`} />
      <Slot x={STREAM} y={386} name={t`after`} norm={norm} item={state.after} />
      <text x={STREAM} y="460" class="name">
        y
      </text>
      <Slot x={BRANCH} y={442} name={t`final norm`} norm={norm} item={state.final} />
      <path class="dashed" d={`M${STREAM + 14} 456 H${BRANCH - 76}`} />
      <text x={BRANCH} y="490" class="faint">
        {t`once, after layer N`}
      </text>
    </svg>
  );
}

function labelOf(slot: FactorSlot, arrangement: Arrangement): string {
  return factor(slot, arrangement[slot]).label;
}

interface SlotProps {
  x: number;
  y: number;
  name: string;
  norm: string;
  item: Item<boolean>;
}

/** A slot for a norm. A click or a key toggles it, like its checkbox. */
function Slot({ x, y, name, norm, item }: SlotProps) {
  const toggle = () => (item.value = !item.value);
  return (
    <g
      class={item.value ? 'slot marked' : 'slot faint'}
      {...pressable(t`${item.value ? norm : t`norm`}, ${name}`, toggle)}
      aria-pressed={item.value}
    >
      <rect class="target" x={x - 70} y={y - 7} width="140" height="44" />
      <rect x={x - 70} y={y} width="140" height="30" rx="8" />
      <text x={x} y={y + 20}>
        {item.value ? norm : name}
      </text>
    </g>
  );
}

function Factor({ x, y, name, label }: { x: number; y: number; name: string; label: string }) {
  return (
    <g class={label === '× 1' ? 'factor faint' : 'factor'}>
      <rect x={x - 38} y={y} width="76" height="28" rx="14" />
      <text x={x} y={y + 19}>
        {label === '× 1' ? `${name} × 1` : label}
      </text>
    </g>
  );
}

function words(a: Arrangement): string {
  const gain = labelOf('gain', a);
  const skip =
    a.skip === 'plain' ? t`there is no skip path` : t`the skip path is ${labelOf('skip', a)}`;
  return a.finalNorm
    ? t`One sublayer: ${skip}, the branch is ${gain}; ${normWords(a)}, and a final norm.`
    : t`One sublayer: ${skip}, the branch is ${gain}; ${normWords(a)}.`;
}

const list = new Intl.ListFormat(language);

function normWords({ before, inside, after }: Arrangement): string {
  const places = [
    before && t`a norm before F`,
    inside && t`a norm on F’s output`,
    after && t`a norm after the sum`,
  ].filter((place) => place !== false);
  return places.length === 0 ? t`no norm` : list.format(places);
}
