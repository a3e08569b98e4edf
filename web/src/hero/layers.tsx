// The measurements of one layer: at its height over the lanes, for the pointer and the keyboard.

import { useState } from 'preact/hooks';
import type { Measurement } from '../kernels/kernels';
import { t } from '../language/text';
import { fixedNumber, roundNumber } from '../ui/numbers';
import { OPTIONS } from './stack';

/** The name of a layer, of its place in the stack at the ends. */
export function layerName(layer: number): string {
  if (layer === 0) return t`layer 0, in`;
  return layer === OPTIONS.layers ? t`layer ${layer}, out` : t`layer ${layer}`;
}

/** The three numbers of a layer, with the classes of their colours. */
export function readingsOf(layer: number, measured: Measurement | undefined) {
  const rms = (values?: number[]) => (values ? roundNumber(values[layer], 3) : '…');
  return [
    { name: t`signal ↑`, look: 'stream', value: rms(measured?.stream) },
    { name: t`gradient ↓`, look: 'gradient', value: rms(measured?.gradient) },
    {
      name: t`token similarity`,
      look: '',
      value: measured ? fixedNumber(measured.tokenCosine[layer], 2) : '…',
    },
  ];
}

/** A slider over the lanes. It shows the layer at the pointer or the one that the keys chose. */
export function Layers({ measured }: { measured: Measurement | undefined }) {
  const [layer, setLayer] = useState<number | null>(null);
  const [chosen, setChosen] = useState(OPTIONS.layers / 2);
  const choose = (to: number) => {
    const inside = Math.max(0, Math.min(OPTIONS.layers, to));
    setChosen(inside);
    setLayer(inside);
  };
  const point = ({ currentTarget, clientY }: MouseEvent) => {
    const { top, height } = (currentTarget as Element).getBoundingClientRect();
    choose(Math.round(OPTIONS.layers * (1 - (clientY - top) / height)));
  };
  const press = (event: KeyboardEvent) => {
    const moves: Record<string, number> = {
      ArrowUp: chosen + 1,
      ArrowRight: chosen + 1,
      ArrowDown: chosen - 1,
      ArrowLeft: chosen - 1,
      Home: 0,
      End: OPTIONS.layers,
    };
    if (!(event.key in moves)) return;
    event.preventDefault();
    choose(moves[event.key]);
  };
  const words = readingsOf(chosen, measured).map(({ name, value }) => `${name} ${value}`);
  return (
    <div
      class="hero-layers"
      role="slider"
      tabIndex={0}
      aria-label={t`Layer`}
      aria-orientation="vertical"
      aria-valuemin={0}
      aria-valuemax={OPTIONS.layers}
      aria-valuenow={chosen}
      aria-valuetext={[layerName(chosen), ...words].join(', ')}
      onKeyDown={press}
      onFocus={() => setLayer(chosen)}
      onBlur={() => setLayer(null)}
      onPointerMove={point}
      onPointerLeave={() => setLayer(null)}
      onClick={point}
    >
      {layer !== null && <Reading layer={layer} measured={measured} />}
    </div>
  );
}

/** A line at the layer, with its numbers above it, or below it near the top. */
function Reading({ layer, measured }: { layer: number; measured: Measurement | undefined }) {
  const top = 1 - layer / OPTIONS.layers;
  return (
    <div class={`hero-reading ${top < 0.2 ? 'below' : ''}`} style={{ top: `${100 * top}%` }}>
      <p>
        <strong>{layerName(layer)}</strong>
        {readingsOf(layer, measured).map(({ name, look, value }) => (
          <span key={name}>
            <span class={look}>{name}</span> <b>{value}</b>
          </span>
        ))}
      </p>
    </div>
  );
}
