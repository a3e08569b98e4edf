// Charts of signal and gradient by layer.

import type { ComponentChildren } from 'preact';
import { t } from '../language/text';
import { type Curve, LineChart } from '../ui/line-chart';

export type Signal = 'stream' | 'gradient';

const NAMES: Record<Signal, string> = {
  stream: t`Stream RMS, from layer 0 to the last`,
  gradient: t`Gradient RMS, from the last layer (right) to layer 0`,
};
const AXES: Record<Signal, string> = {
  stream: t`stream’s RMS`,
  gradient: t`gradient’s RMS`,
};
const RELATIVE_AXES: Record<Signal, string> = {
  stream: t`stream’s RMS, relative`,
  gradient: t`gradient’s RMS, relative`,
};

interface LayerChartProps {
  of: Signal;
  curves: readonly Curve[];
  relative?: boolean; // each curve relative to its start
}

/** The root mean square of the stream or of its gradient, at each layer. */
export function LayerChart({ of, curves, relative }: LayerChartProps) {
  return (
    <LineChart
      name={NAMES[of]}
      xLabel={t`layer`}
      yLabel={(relative ? RELATIVE_AXES : AXES)[of]}
      curves={curves}
      logarithmic
    />
  );
}

interface LayerHintProps {
  last: number | string; // the position of the last value
  children: ComponentChildren;
}

/** Explains the layers of these charts, with further remarks. */
export function LayerHint({ last, children }: LayerHintProps) {
  return (
    <p class="hint">
      {t`The value at layer l belongs to its input; the value at ${last} belongs to the last layer’s
        output.`}{' '}
      {children}
    </p>
  );
}
